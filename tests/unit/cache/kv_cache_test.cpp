// KvCache in random sequences of operations against plain lists; its byte counts; rows beyond
// 4 GiB. The seed is printed with a failure.
#include "cache/kv_cache.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "core/error.hpp"
#include "core/rng.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kLayers = 2;
constexpr std::int64_t kHeads = 3;
constexpr std::int64_t kHeadDim = 4;

// An entry is its place in the text; each stored element is derived from it, so that a row that
// went astray is seen. `side` is 0 for keys, 1 for values.
float element(std::int64_t layer, std::int64_t head, int side, std::int32_t position,
              std::int64_t i) {
  return static_cast<float>((((position * 2 + side) * kHeads + head) * kLayers + layer) * kHeadDim +
                            i);
}

class CacheAndLists {
 public:
  explicit CacheAndLists(Backend& backend)
      : cache_(backend, {kLayers, kHeads, kHeadDim, DType::f32}),
        lists_(static_cast<std::size_t>(kLayers * kHeads)) {}

  KvCache& cache() { return cache_; }
  std::vector<std::int32_t>& list(std::int64_t layer, std::int64_t head) {
    return lists_[static_cast<std::size_t>(layer * kHeads + head)];
  }
  void forget() {
    for (auto& list : lists_) list.clear();
  }

  void append(std::int64_t layer, std::int32_t first, std::int64_t n) {
    std::vector<std::int32_t> positions(static_cast<std::size_t>(n));
    std::iota(positions.begin(), positions.end(), first);
    const auto target = cache_.append(layer, positions);
    for (std::int64_t head = 0; head < kHeads; ++head) {
      auto* keys = static_cast<float*>(target.keys[static_cast<std::size_t>(head)]);
      auto* values = static_cast<float*>(target.values[static_cast<std::size_t>(head)]);
      for (const std::int32_t position : positions) {
        for (std::int64_t i = 0; i < kHeadDim; ++i) {
          *keys++ = element(layer, head, 0, position, i);
          *values++ = element(layer, head, 1, position, i);
        }
      }
      auto& known = list(layer, head);
      known.insert(known.end(), positions.begin(), positions.end());
    }
  }

  // Everything that can be seen of the cache is that of the lists.
  void check(std::int64_t evicted) {
    std::int64_t rows = 0;
    std::size_t longest = 0;
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      const auto views = cache_.view(layer);
      for (std::int64_t head = 0; head < kHeads; ++head) {
        const auto& known = list(layer, head);
        const auto& view = views[static_cast<std::size_t>(head)];
        rows += static_cast<std::int64_t>(known.size());
        longest = std::max(longest, known.size());
        REQUIRE(view.length == static_cast<std::int64_t>(known.size()));
        REQUIRE(cache_.length(layer, head) == view.length);
        const auto positions = cache_.positions(layer, head);
        REQUIRE(std::equal(positions.begin(), positions.end(), known.begin(), known.end()));
        for (std::size_t slot = 0; slot < known.size(); ++slot) {
          for (std::int64_t i = 0; i < kHeadDim; ++i) {
            const auto at = static_cast<std::int64_t>(slot) * kHeadDim + i;
            REQUIRE(static_cast<const float*>(view.keys)[at] ==
                    element(layer, head, 0, known[slot], i));
            REQUIRE(static_cast<const float*>(view.values)[at] ==
                    element(layer, head, 1, known[slot], i));
          }
        }
      }
    }
    REQUIRE(cache_.longest() == static_cast<std::int64_t>(longest));
    REQUIRE(cache_.live_bytes() == rows * 2 * kHeadDim * 4);
    REQUIRE(cache_.allocated_bytes() >= cache_.live_bytes());
    REQUIRE(cache_.peak_live_bytes() >= cache_.live_bytes());
    REQUIRE(cache_.peak_allocated_bytes() >= cache_.allocated_bytes());
    REQUIRE(cache_.evicted_entries() == evicted);
  }

 private:
  KvCache cache_;
  std::vector<std::vector<std::int32_t>> lists_;  // [layer * head] positions
};

std::vector<std::int32_t> random_slots(Rng& rng, std::size_t length) {
  std::vector<std::int32_t> slots;
  const std::uint64_t share = rng.below(11);  // of ten: from none to all stay
  for (std::size_t slot = 0; slot < length; ++slot) {
    if (rng.below(10) < share) slots.push_back(static_cast<std::int32_t>(slot));
  }
  return slots;
}

void random_sequence(std::uint64_t seed) {
  CAPTURE(seed);
  Rng rng(seed);
  CpuBackend backend(1);
  CacheAndLists both(backend);
  std::int32_t next = 0;
  std::int64_t evicted = 0;
  for (int step = 0; step < 120; ++step) {
    CAPTURE(step);
    const auto layer = static_cast<std::int64_t>(rng.below(kLayers));
    const auto head = static_cast<std::int64_t>(rng.below(kHeads));
    auto& known = both.list(layer, head);
    switch (rng.below(10)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const auto n = static_cast<std::int64_t>(1 + rng.below(20));
        for (std::int64_t l = 0; l < kLayers; ++l) both.append(l, next, n);
        next += static_cast<std::int32_t>(n);
        break;
      }
      case 4:
      case 5: {
        const auto slots = random_slots(rng, known.size());
        both.cache().keep(layer, head, slots);
        std::vector<std::int32_t> kept;
        for (const auto slot : slots) kept.push_back(known[static_cast<std::size_t>(slot)]);
        evicted += static_cast<std::int64_t>(known.size() - kept.size());
        known = kept;
        break;
      }
      case 6:
      case 7: {
        const auto first = static_cast<std::int64_t>(rng.below(known.size() + 1));
        const auto count = static_cast<std::int64_t>(
            rng.below(known.size() + 1 - static_cast<std::size_t>(first)));
        both.cache().evict_run(layer, head, first, count);
        known.erase(known.begin() + first, known.begin() + first + count);
        evicted += count;
        break;
      }
      case 8:
        if (rng.below(2) == 0) {
          both.cache().shrink(static_cast<std::int64_t>(rng.below(5)));
        } else {
          both.cache().reserve(static_cast<std::int64_t>(rng.below(100)));
        }
        break;
      default:
        if (rng.below(6) == 0) {
          both.cache().clear();
          both.forget();
        }
    }
    both.check(evicted);
  }
}

TEST_CASE("random sequences of append, keep, evict_run, shrink, reserve and clear") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) random_sequence(seed);
}

// One layer, two KV heads of 4 floats: 20 tokens, of which 10 stay.
TEST_CASE("bytes: live ones are rows, allocated ones are the allocator's") {
  CpuBackend backend(1);
  KvCache cache(backend, {1, 2, 4, DType::f32});
  cache.reserve(20);
  std::vector<std::int32_t> positions(20);
  std::iota(positions.begin(), positions.end(), 0);
  cache.append(0, positions);
  CHECK(cache.live_bytes() == 1280);
  CHECK(cache.allocated_bytes() == 1280);
  std::vector<std::int32_t> odd;
  for (std::int32_t slot = 1; slot < 20; slot += 2) odd.push_back(slot);
  cache.keep(0, 0, odd);
  cache.evict_run(0, 1, 0, 10);
  CHECK(cache.live_bytes() == 640);
  CHECK(cache.peak_live_bytes() == 1280);
  CHECK(cache.allocated_bytes() == 1280);
  cache.shrink(0);
  CHECK(cache.allocated_bytes() == 640);
  CHECK(cache.evicted_entries() == 20);
  cache.reset_statistics();
  CHECK(cache.peak_live_bytes() == 640);
  CHECK(cache.peak_allocated_bytes() == 640);
  CHECK(cache.evicted_entries() == 0);
  cache.clear();
  CHECK(cache.live_bytes() == 0);
  CHECK(cache.evicted_entries() == 0);
}

TEST_CASE("bytes: bf16 takes half") {
  CpuBackend backend(1);
  KvCache cache(backend, {1, 2, 4, DType::bf16});
  const std::vector<std::int32_t> positions{0, 1, 2};
  cache.append(0, positions);
  CHECK(cache.live_bytes() == 3 * 2 * 2 * 4 * 2);
}

TEST_CASE("appending up to what was reserved allocates nothing") {
  CpuBackend backend(1);
  KvCache cache(backend, {2, 2, 4, DType::f32});
  cache.reserve(50);
  const std::int64_t before = cache.allocated_bytes();
  for (std::int32_t position = 0; position < 50; ++position) {
    for (std::int64_t layer = 0; layer < 2; ++layer) cache.append(layer, {&position, 1});
  }
  CHECK(cache.allocated_bytes() == before);
  CHECK(cache.peak_allocated_bytes() == before);
}

TEST_CASE("slots that do not ascend or do not exist are refused") {
  CpuBackend backend(1);
  KvCache cache(backend, {1, 1, 4, DType::f32});
  const std::vector<std::int32_t> positions{0, 1, 2};
  cache.append(0, positions);
  const auto message = [&](const std::vector<std::int32_t>& slots) {
    return test::error_text<InternalError>([&] { cache.keep(0, 0, slots); });
  };
  CHECK(test::contains(message({1, 0}), "ascend"));
  CHECK(test::contains(message({1, 1}), "ascend"));
  CHECK(test::contains(message({2, 3}), "ascend"));
  CHECK(test::contains(message({-1, 2}), "ascend"));
  CHECK_THROWS_AS(cache.evict_run(0, 0, 1, 3), InternalError);
  CHECK(cache.length(0, 0) == 3);
}

// Hands out address space that is never touched; computes nothing.
class AddressSpace final : public Backend {
 public:
  std::string_view name() const override { return "address space"; }
  int threads() const override { return 1; }
  Buffer allocate(std::size_t bytes, MemoryMeter* meter) override {
    void* data = ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(bytes <= kMapped);
    REQUIRE(data != MAP_FAILED);
    return Buffer(
        data, bytes, [](void* p) { ::munmap(p, kMapped); }, meter);
  }
  void copy_in(void*, const void*, std::size_t) override { unused(); }
  void copy_out(void*, const void*, std::size_t) override { unused(); }
  void copy_rows(void*, const void*, std::size_t) override { unused(); }
  void synchronize() override {}
  std::unique_ptr<LinearWeight> make_linear(std::span<const TensorView>,
                                            std::span<const TensorView>, DType) override {
    return nullptr;
  }
  std::unique_ptr<EmbeddingTable> make_table(const TensorView&) override { return nullptr; }
  void embed(const EmbeddingTable&, std::span<const std::int32_t>, float*) override { unused(); }
  void norm(const NormArgs&) override { unused(); }
  void linear(const LinearWeight&, const LinearArgs&) override { unused(); }
  void gated_activation(const GatedActivationArgs&) override { unused(); }
  void kv_append(const KvAppendArgs&) override { unused(); }
  void move_rows(std::span<const RowMove>, std::size_t) override { unused(); }
  void attention(const AttentionArgs&) override { unused(); }
  void attention_weights(const AttentionWeightsArgs&) override { unused(); }
  void nll(const NllArgs&) override { unused(); }

 private:
  static constexpr std::size_t kMapped = std::size_t{6} << 30;
  static void unused() { FAIL("this backend computes nothing"); }
};

// Rows of 4 MiB: the slab of one head passes 4 GiB, and 2^32 bytes is row 1024.
TEST_CASE("places of rows and byte counts beyond 32 bits") {
  constexpr std::int64_t kRowBytes = INT64_C(4) << 20;
  AddressSpace backend;
  KvCache cache(backend, {1, 1, kRowBytes / 4, DType::f32});
  cache.reserve(1200);
  std::vector<std::int32_t> positions(1100);
  std::iota(positions.begin(), positions.end(), 0);
  const auto* slab = static_cast<const std::byte*>(cache.append(0, positions).keys[0]);
  CHECK(cache.live_bytes() == 1100 * 2 * kRowBytes);
  CHECK(cache.allocated_bytes() == 1200 * 2 * kRowBytes);
  const std::int32_t next = 1100;
  CHECK(static_cast<const std::byte*>(cache.append(0, {&next, 1}).keys[0]) - slab ==
        1100 * kRowBytes);
  cache.evict_run(0, 0, 0, 1050);
  CHECK(static_cast<const std::byte*>(cache.view(0)[0].keys) - slab == 1050 * kRowBytes);
  CHECK(cache.live_bytes() == 51 * 2 * kRowBytes);
}

}  // namespace
}  // namespace kvbench
