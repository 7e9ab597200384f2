// KIVI storage: what is quantised when, its bytes, independence of how tokens were grouped into
// steps, and random eviction against plain lists. The seed is printed with a failure.
#include "cache/kivi_store.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "cache/kv_cache.hpp"
#include "cache/kv_format.hpp"
#include "core/error.hpp"
#include "core/rng.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

std::vector<std::int32_t> places(std::int64_t first, std::int64_t n) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(n));
  std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(first));
  return positions;
}

// A row derived from its place in the text, so that one that went astray is seen.
std::vector<float> row_of(std::int64_t position, int side, std::int64_t head_dim) {
  Rng rng(static_cast<std::uint64_t>(position) * 2 + static_cast<std::uint64_t>(side));
  std::vector<float> row(static_cast<std::size_t>(head_dim));
  for (float& x : row) x = static_cast<float>(4.0 * rng.uniform() - 2.0);
  return row;
}

// Appends to all heads of layer 0 of an f32 cache.
void append(KvCache& cache, std::int64_t first, std::int64_t n) {
  const auto target = cache.append(0, places(first, n));
  const std::int64_t d = cache.shape().head_dim;
  for (std::size_t head = 0; head < target.keys.size(); ++head) {
    for (std::int64_t i = 0; i < n; ++i) {
      std::ranges::copy(row_of(first + i, 0, d), static_cast<float*>(target.keys[head]) + i * d);
      std::ranges::copy(row_of(first + i, 1, d), static_cast<float*>(target.values[head]) + i * d);
    }
  }
}

// One side of a head as attention sees it, f32.
std::vector<float> read(const QuantisedRows& quantised, const void* rows, std::int64_t length,
                        std::int64_t d) {
  std::vector<float> out(static_cast<std::size_t>(length * d));
  dequantise_rows(quantised, 0, quantised.n_rows, d, out.data());
  std::copy_n(static_cast<const float*>(rows), (length - quantised.n_rows) * d,
              out.begin() + quantised.n_rows * d);
  return out;
}

// 32 tokens at once, 168 one by one, 2 bits, groups of 32, head of 128, 16-bit rows:
//   keys 192 * 32 + 6 * 512 + 8 * 256, values 168 * (32 + 16) + 32 * 256.
TEST_CASE("quantises while decoding; bytes are those of codes, parameters and rows") {
  CpuBackend backend(1);
  KvCache cache(backend, {1, 1, 128, DType::bf16, KiviOptions{2, 32, 32}});
  cache.append(0, places(0, 32));
  cache.quantise(0);
  for (std::int64_t i = 32; i < 200; ++i) {
    cache.append(0, places(i, 1));
    cache.quantise(0);
  }
  const KvHeadView& view = cache.view(0)[0];
  CHECK(view.length == 200);
  CHECK(view.quantised_keys.n_rows == 192);
  CHECK(view.quantised_keys.n_groups == 6);
  CHECK(view.quantised_values.n_rows == 168);
  CHECK(cache.quantised_rows() == 192 + 168);
  CHECK(cache.live_bytes() == 11264 + 16256);
  CHECK(cache.allocated_bytes() >= cache.live_bytes());
  CHECK(kivi_entry_bytes({2, 32, 32}, 128) == 32 + 16 + 32 + 16);
  cache.reset_statistics();
  CHECK(cache.quantised_rows() == 0);
}

TEST_CASE("after a prompt: keys beyond the last whole block wait, values keep the newest") {
  CpuBackend backend(1);
  for (const std::int64_t n : {1, 7, 8, 9, 16, 37}) {
    CAPTURE(n);
    KvCache cache(backend, {1, 2, 8, DType::f32, KiviOptions{2, 4, 8}});
    cache.reserve_waiting(n);
    append(cache, 0, n);
    CHECK(cache.view(0)[1].quantised_keys.n_rows == 0);
    cache.quantise(0);
    CHECK(cache.view(0)[1].quantised_keys.n_rows == n / 8 * 8);
    CHECK(cache.view(0)[1].quantised_values.n_rows == std::max<std::int64_t>(0, n - 8));
  }
}

TEST_CASE("codes and parameters do not depend on how tokens come") {
  constexpr std::int64_t kDim = 8;
  const auto run = [&](std::int64_t step) {
    CpuBackend backend(1);
    KvCache cache(backend, {1, 1, kDim, DType::f32, KiviOptions{4, 4, 16}});
    for (std::int64_t at = 0; at < 40; at += step) {
      append(cache, at, step);
      cache.quantise(0);
    }
    const KvHeadView& view = cache.view(0)[0];
    const QuantisedRows& k = view.quantised_keys;
    const QuantisedRows& v = view.quantised_values;
    CHECK(k.n_rows == 32);
    CHECK(v.n_rows == 24);
    return std::vector<std::vector<int>>{{k.codes, k.codes + k.n_rows * kDim / 2},
                                         {v.codes, v.codes + v.n_rows * kDim / 2},
                                         {k.parameters, k.parameters + k.n_groups * 2 * kDim},
                                         {v.parameters, v.parameters + v.n_rows * 2 * kDim / 4}};
  };
  const auto one_by_one = run(1);
  CHECK(run(40) == one_by_one);
  CHECK(run(5) == one_by_one);
  CHECK(run(8) == one_by_one);
}

// ---- random sequences ----

constexpr std::int64_t kGroup = 4;
constexpr std::int64_t kDim = 8;

struct Entry {
  std::int64_t position;
  std::vector<float> key, value;  // as they are read
  std::int64_t key_group = -1;    // >= 0: quantised, in this group
  bool value_quantised = false;
};

// What a group of numbers reads as once it is stored in 2 bits.
std::vector<float> through_two_bits(const std::vector<float>& group) {
  const auto [least, most] = std::minmax_element(group.begin(), group.end());
  const float scale = f16_to_float(float_to_f16((*most - *least) / 3.0f));
  const float zero = f16_to_float(float_to_f16(*least));
  std::vector<float> out;
  for (const float x : group) {
    const float code =
        scale == 0.0f ? 0.0f : std::clamp(std::nearbyint((x - zero) / scale), 0.0f, 3.0f);
    out.push_back(code * scale + zero);
  }
  return out;
}

// The rules on a list of entries.
class Lists {
 public:
  explicit Lists(std::int64_t residual) : residual_(residual) {}
  std::vector<Entry> entries;

  void append(std::int64_t first, std::int64_t n) {
    for (std::int64_t i = first; i < first + n; ++i) {
      entries.push_back({i, row_of(i, 0, kDim), row_of(i, 1, kDim)});
    }
  }
  void quantise() {
    std::int64_t waiting = 0;
    for (const Entry& e : entries) waiting += e.key_group < 0 ? 1 : 0;
    std::size_t at = entries.size() - static_cast<std::size_t>(waiting);
    for (std::int64_t left = waiting / residual_ * residual_; left > 0; left -= kGroup) {
      for (std::size_t c = 0; c < kDim; ++c) {
        std::vector<float> group;
        for (std::size_t r = at; r < at + kGroup; ++r) group.push_back(entries[r].key[c]);
        group = through_two_bits(group);
        for (std::size_t r = 0; r < kGroup; ++r) entries[at + r].key[c] = group[r];
      }
      for (std::size_t r = at; r < at + kGroup; ++r) entries[r].key_group = next_group_;
      ++next_group_;
      at += kGroup;
    }
    std::int64_t full = 0;
    for (const Entry& e : entries) full += e.value_quantised ? 0 : 1;
    for (Entry& e : entries) {
      if (e.value_quantised || full <= residual_) continue;
      for (std::size_t c = 0; c < kDim; c += kGroup) {
        const auto part =
            through_two_bits({e.value.begin() + static_cast<std::ptrdiff_t>(c),
                              e.value.begin() + static_cast<std::ptrdiff_t>(c) + kGroup});
        std::ranges::copy(part, e.value.begin() + static_cast<std::ptrdiff_t>(c));
      }
      e.value_quantised = true;
      --full;
    }
  }
  std::int64_t bytes() const {
    std::int64_t total = 0;
    std::set<std::int64_t> groups;
    for (const Entry& e : entries) {
      total += e.key_group >= 0 ? kDim / 4 : kDim * 4;
      total += e.value_quantised ? kDim / 4 + kDim / kGroup * 4 : kDim * 4;
      if (e.key_group >= 0) groups.insert(e.key_group);
    }
    return total + static_cast<std::int64_t>(groups.size()) * kDim * 4;
  }

 private:
  std::int64_t residual_;
  std::int64_t next_group_ = 0;
};

void check_same(KvCache& cache, const Lists& lists) {
  const KvHeadView& view = cache.view(0)[0];
  REQUIRE(view.length == static_cast<std::int64_t>(lists.entries.size()));
  const auto keys = read(view.quantised_keys, view.keys, view.length, kDim);
  const auto values = read(view.quantised_values, view.values, view.length, kDim);
  for (std::size_t slot = 0; slot < lists.entries.size(); ++slot) {
    const Entry& entry = lists.entries[slot];
    CAPTURE(slot);
    REQUIRE(view.positions[slot] == entry.position);
    REQUIRE(std::equal(entry.key.begin(), entry.key.end(),
                       keys.begin() + static_cast<std::ptrdiff_t>(slot) * kDim));
    REQUIRE(std::equal(entry.value.begin(), entry.value.end(),
                       values.begin() + static_cast<std::ptrdiff_t>(slot) * kDim));
  }
  REQUIRE(cache.live_bytes() == lists.bytes());
  REQUIRE(cache.allocated_bytes() >= cache.live_bytes());
  REQUIRE(cache.peak_live_bytes() >= cache.live_bytes());
}

void random_sequence(std::uint64_t seed) {
  CAPTURE(seed);
  Rng rng(seed);
  CpuBackend backend(1);
  const auto residual = static_cast<std::int64_t>(kGroup * (1 + rng.below(3)));
  KvCache cache(backend, {1, 1, kDim, DType::f32, KiviOptions{2, kGroup, residual}});
  Lists lists(residual);
  std::int64_t next = 0;
  for (int step = 0; step < 150; ++step) {
    CAPTURE(step);
    auto& entries = lists.entries;
    const auto length = entries.size();
    switch (rng.below(8)) {
      case 0:
      case 1:
      case 2: {
        const auto n = static_cast<std::int64_t>(1 + rng.below(20));
        append(cache, next, n);
        lists.append(next, n);
        next += n;
        break;
      }
      case 3:
      case 4:
        cache.quantise(0);
        lists.quantise();
        break;
      case 5: {
        const std::uint64_t share = rng.below(11);
        std::vector<std::int32_t> slots;
        std::vector<Entry> kept;
        for (std::size_t slot = 0; slot < length; ++slot) {
          if (rng.below(10) >= share) continue;
          slots.push_back(static_cast<std::int32_t>(slot));
          kept.push_back(entries[slot]);
        }
        cache.keep(0, 0, slots);
        entries = kept;
        break;
      }
      case 6: {
        const auto first = static_cast<std::int64_t>(rng.below(length + 1));
        const auto count = static_cast<std::int64_t>(
            rng.below(std::min<std::size_t>(6, length + 1 - static_cast<std::size_t>(first))));
        cache.evict_run(0, 0, first, count);
        entries.erase(entries.begin() + first, entries.begin() + first + count);
        break;
      }
      default:
        if (rng.below(3) == 0) {
          cache.clear();
          entries.clear();
        } else if (rng.below(2) == 0) {
          cache.shrink(static_cast<std::int64_t>(rng.below(5)));
        } else {
          cache.reserve(static_cast<std::int64_t>(rng.below(100)));
        }
    }
    check_same(cache, lists);
  }
}

TEST_CASE("random appends, evictions and quantisations against lists") {
  for (std::uint64_t seed = 1; seed <= 80; ++seed) random_sequence(seed);
}

// ---- errors ----

TEST_CASE("a number that is not finite names layer, head, side and place") {
  CpuBackend backend(1);
  const auto message = [&](int side, std::int64_t bad) {
    KvCache cache(backend, {1, 2, 8, DType::f32, KiviOptions{2, 4, 8}});
    const auto target = cache.append(0, places(100, 24));
    static_cast<float*>((side == 0 ? target.keys : target.values)[1])[bad * 8] = INFINITY;
    return test::error_text<DataError>([&] { cache.quantise(0); });
  };
  CHECK(test::contains(message(0, 6), "layer 0, KV head 1: non-finite key"));
  CHECK(test::contains(message(0, 6), "token 104"));
  CHECK(test::contains(message(1, 6), "layer 0, KV head 1: non-finite value"));
  CHECK(test::contains(message(1, 6), "token 106"));
  CHECK(message(1, 20) == "no error");  // still waits
}

TEST_CASE("what a layer could not store is told after the last layer; a cleared cache goes on") {
  CpuBackend backend(1);
  KvCache cache(backend, {3, 1, 8, DType::f32, KiviOptions{2, 4, 8}});
  const auto step = [&](std::int64_t bad_layer) {
    for (std::int64_t layer = 0; layer < 3; ++layer) {
      const auto target = cache.append(layer, places(50, 24));
      std::fill_n(static_cast<float*>(target.keys[0]), 24 * 8, 1.0f);
      std::fill_n(static_cast<float*>(target.values[0]), 24 * 8, 1.0f);
      if (layer == bad_layer) static_cast<float*>(target.values[0])[5 * 8] = NAN;
    }
    cache.quantise(0);
    cache.quantise(1);
    return test::error_text<DataError>([&] { cache.quantise(2); });
  };
  for (const std::int64_t bad_layer : {0, 1, 2}) {
    CHECK(test::contains(step(bad_layer), "layer " + std::to_string(bad_layer) + ", KV head 0"));
    cache.clear();
    CHECK(test::contains(step(bad_layer), "token 55"));
    cache.clear();
    CHECK(step(-1) == "no error");
    cache.clear();
  }
  // A step that breaks off.
  std::fill_n(static_cast<float*>(cache.append(0, places(50, 24)).keys[0]), 24 * 8, NAN);
  cache.quantise(0);
  cache.clear();
  CHECK(step(-1) == "no error");
}

TEST_CASE("sizes that do not divide") {
  CpuBackend backend(1);
  const auto message = [&](const KiviOptions& options) {
    return test::error_text<ConfigError>([&] {
      KvCache cache(backend, {1, 1, 96, DType::f32, options});
    });
  };
  CHECK(test::contains(message({2, 64, 128}), "head_dim 96"));
  CHECK(test::contains(message({2, 64, 128}), "group=64"));
  CHECK(test::contains(message({2, 32, 40}), "residual=40"));
  CHECK(message({2, 32, 64}) == "no error");
}

TEST_CASE("how storage is written") {
  const KvFormat kivi = parse_kv_format("kivi:bits=4,group=16,residual=64", DType::f32);
  REQUIRE(kivi.kivi.has_value());
  CHECK(kivi.kivi->bits == 4);
  CHECK(kivi.kivi->group == 16);
  CHECK(kivi.kivi->residual == 64);
  CHECK(kivi.dtype == DType::bf16);
  CHECK(parse_kv_format("kivi", DType::f32).kivi->residual == 128);
  CHECK(parse_kv_format("kivi:dtype=f32", DType::bf16).dtype == DType::f32);
  CHECK(parse_kv_format("same", DType::bf16).dtype == DType::bf16);
  CHECK_FALSE(parse_kv_format("f32", DType::bf16).kivi.has_value());
  const auto message = [](const char* text) {
    return test::error_text<ConfigError>([&] { parse_kv_format(text, DType::f32); });
  };
  CHECK(test::contains(message("int4"), "found 'int4'"));
  CHECK(test::contains(message("kivi:bits=3"), "bits"));
  CHECK(test::contains(message("kivi:bits=8"), "bits"));
  CHECK(test::contains(message("kivi:gruop=32"), "did you mean 'group'?"));
  CHECK(test::contains(message("kivi:group=32,residual=40"), "residual=40"));
  CHECK(test::contains(message("kivi:residual=0"), "residual"));
  CHECK(test::contains(message("kivi:dtype=f16"), "dtype"));
}

}  // namespace
}  // namespace kvbench
