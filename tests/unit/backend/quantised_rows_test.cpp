// Codes, scales and zeros of quantised rows against reference numbers and by hand; attention over
// quantised rows against attention over the same rows in f32.
#include "backend/quantised_rows.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "tests/unit/backend/random_values.hpp"

namespace kvbench {
namespace {

using nlohmann::json;

// Rows quantised at once, and read back number by number.
struct Quantised {
  Quantised(const std::vector<float>& of, std::int64_t row_width, QuantFormat of_format)
      : width(row_width), format(of_format) {
    n_rows = static_cast<std::int64_t>(of.size()) / width;
    n_blocks = format.along_rows ? n_rows / format.group : n_rows;
    codes.resize(static_cast<std::size_t>(n_rows) * packed_row_bytes(width, format));
    parameters.resize(static_cast<std::size_t>(n_blocks) * parameter_bytes(width, format) / 2);
    fault = quantise_rows({.rows = of.data(),
                           .dtype = DType::f32,
                           .n_rows = n_rows,
                           .width = width,
                           .format = format,
                           .codes = codes.data(),
                           .parameters = parameters.data()});
    for (std::int64_t block = 1; format.along_rows && block <= n_blocks; ++block) {
      ends.push_back(static_cast<std::int32_t>(block * format.group));
    }
  }

  QuantisedRows view() const {
    return {.format = format,
            .codes = codes.data(),
            .parameters = parameters.data(),
            .n_rows = n_rows,
            .group_ends = ends.data(),
            .n_groups = static_cast<std::int64_t>(ends.size())};
  }
  int code(std::int64_t row, std::int64_t column) const {
    const auto bytes = static_cast<std::int64_t>(packed_row_bytes(width, format));
    const int byte = codes[static_cast<std::size_t>(row * bytes + column % bytes)];
    return (byte >> (column / bytes * format.bits)) & ((1 << format.bits) - 1);
  }
  std::vector<float> read(std::int64_t first, std::int64_t n) const {
    std::vector<float> out(static_cast<std::size_t>(n * width));
    dequantise_rows(view(), first, n, width, out.data());
    return out;
  }
  std::vector<float> read() const { return read(0, n_rows); }

  std::int64_t width, n_rows = 0, n_blocks = 0;
  QuantFormat format;
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> parameters;
  std::vector<std::int32_t> ends;
  std::int64_t fault = -1;
};

void check_side(const json& golden, const json& side, const std::vector<float>& rows,
                std::int64_t bits, bool along_rows) {
  const auto width = golden["channels"].get<std::int64_t>();
  const Quantised found(rows, width, {.bits = bits, .group = 32, .along_rows = along_rows});
  REQUIRE(found.fault == -1);
  const auto codes = side["codes"].get<std::string>();
  std::int64_t different = 0;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(codes.size()); ++i) {
    const int wanted = std::stoi(codes.substr(static_cast<std::size_t>(i), 1), nullptr, 16);
    if (found.code(i / width, i % width) != wanted) ++different;
  }
  CHECK(codes.size() == rows.size());
  CHECK(different == 0);

  const auto scales = side["scale"].get<std::vector<double>>();
  const auto zeros = side["zero"].get<std::vector<double>>();
  const std::size_t per_block = scales.size() / static_cast<std::size_t>(found.n_blocks);
  REQUIRE(found.parameters.size() == 2 * scales.size());
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const std::size_t at = i / per_block * 2 * per_block + i % per_block;
    CHECK(std::abs(f16_to_float(found.parameters[at]) - scales[i]) <= 1e-6 * scales[i]);
    CHECK(std::abs(f16_to_float(found.parameters[at + per_block]) - zeros[i]) <=
          1e-6 * std::abs(zeros[i]));
  }

  const auto [least, most] = std::minmax_element(rows.begin(), rows.end());
  const double bound = 1e-6 * static_cast<double>(*most - *least);
  const auto picked = side["rows"].get<std::vector<std::int64_t>>();
  CHECK(picked.size() >= 2);
  for (std::size_t i = 0; i < picked.size(); ++i) {
    CHECK(test::largest_gap(found.read(picked[i], 1),
                            side["dequant"][i].get<std::vector<double>>()) <= bound);
  }
}

TEST_CASE("codes, scales, zeros and what is read, against reference numbers") {
  const json golden = json::parse(
      std::ifstream(std::string(KVBENCH_SOURCE_DIR) + "/tests/golden/quantised_groups.json"));
  CHECK(golden["cases"].size() == 3);
  for (const json& c : golden["cases"]) {
    const auto denominator = c["denominator"].get<float>();
    for (const json& result : c["results"]) {
      const auto bits = result["bits"].get<std::int64_t>();
      for (const std::string side : {"K", "V"}) {
        CAPTURE(c["name"].get<std::string>());
        CAPTURE(bits);
        CAPTURE(side);
        auto rows = c[side].get<std::vector<float>>();
        for (float& x : rows) x /= denominator;
        check_side(c, result[side], rows, bits, side == "K");
      }
    }
  }
}

TEST_CASE("a group by hand: true division, half to even, and a group without range") {
  const Quantised four({0.0f, 2.2f, 3.8f, 6.0f}, 4, {.bits = 2, .group = 4});
  CHECK(four.read() == std::vector<float>{0, 2, 4, 6});
  const Quantised halves({0.0f, 0.5f, 1.5f, 2.5f, 3.0f, 3.0f}, 6, {.bits = 2, .group = 6});
  CHECK(halves.read() == std::vector<float>{0, 0, 2, 2, 3, 3});
  for (const bool along_rows : {false, true}) {
    const std::int64_t width = along_rows ? 1 : 4;
    const Quantised constant({5, 5, 5, 5}, width,
                             {.bits = 2, .group = 4, .along_rows = along_rows});
    CHECK(constant.fault == -1);
    CHECK(constant.read() == std::vector<float>{5, 5, 5, 5});
  }
  const Quantised single({1.5f, -2.0f, 0.25f}, 3, {.bits = 4, .group = 1});
  CHECK(single.read() == std::vector<float>{1.5f, -2.0f, 0.25f});
}

TEST_CASE("numbers that are not finite or out of f16's range name the group's first row") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {kInf, -kInf, kNan, -1e5f, 3e38f}) {
    CAPTURE(bad);
    std::vector<float> rows(12 * 4, 1.0f);
    rows[7 * 4 + 2] = bad;
    CHECK(Quantised(rows, 4, {.bits = 2, .group = 4, .along_rows = true}).fault == 4);
    CHECK(Quantised(rows, 4, {.bits = 2, .group = 4}).fault == 7);
  }
  // Beyond f16 as a number, but scale and zero are not.
  CHECK(Quantised({0.0f, 9e4f}, 2, {.bits = 2, .group = 2}).fault == -1);
}

// Widths that fill no whole byte, groups that eviction has shortened, and starts inside a group.
TEST_CASE("reading any stretch of rows") {
  Rng rng(5);
  for (const std::int64_t bits : {2, 4}) {
    for (const std::int64_t width : {1, 3, 6, 20}) {
      CAPTURE(width);
      const auto rows = test::random_floats(rng, 12 * width);
      Quantised found(rows, width, {.bits = bits, .group = 4, .along_rows = true});
      const auto whole = found.read();
      for (std::int64_t row = 0; row < 12; ++row) {
        for (std::int64_t c = 0; c < width; ++c) {
          const auto at = static_cast<std::size_t>(row * width + c);
          const std::size_t block = static_cast<std::size_t>(row / 4 * 2 * width);
          const float scale = f16_to_float(found.parameters[block + static_cast<std::size_t>(c)]);
          CHECK(std::abs(whole[at] - rows[at]) <= 0.51f * scale + 1e-3f);
        }
      }
      for (std::int64_t first = 0; first < 12; ++first) {
        const auto part = found.read(first, 12 - first);
        CHECK(std::equal(part.begin(), part.end(), whole.begin() + first * width));
      }
    }
  }
}

// One KV head, 150 slots, of which so many keys and values are quantised.
void check_attention(std::int64_t n_keys, std::int64_t n_values, DType dtype, bool by_slot) {
  CAPTURE(n_keys);
  CAPTURE(n_values);
  constexpr std::int64_t kDim = 16, kSlots = 150, kTokens = 3, kHeads = 2;
  Rng rng(9);
  const auto keys = test::rounded(test::random_floats(rng, kSlots * kDim), dtype);
  const auto values = test::rounded(test::random_floats(rng, kSlots * kDim), dtype);
  const auto q = test::random_floats(rng, kTokens * kHeads * kDim);
  const auto turns = test::random_floats(rng, kSlots * kDim / 2);
  std::vector<std::int32_t> positions(kSlots);
  std::iota(positions.begin(), positions.end(), 0);
  const auto cut = [&](const std::vector<float>& rows, std::int64_t n) {
    return std::vector<float>(rows.begin(), rows.begin() + n * kDim);
  };
  const Quantised quantised_keys(cut(keys, n_keys), kDim,
                                 {.bits = 2, .group = 8, .along_rows = true});
  const Quantised quantised_values(cut(values, n_values), kDim, {.bits = 4, .group = 8});
  auto plain_keys = keys;
  auto plain_values = values;
  std::ranges::copy(quantised_keys.read(), plain_keys.begin());
  std::ranges::copy(quantised_values.read(), plain_values.begin());

  const auto keys16 = test::to_bf16(keys);
  const auto values16 = test::to_bf16(values);
  const bool wide = dtype == DType::f32;
  const auto rest = [&](const std::vector<float>& rows, const std::vector<std::uint16_t>& rows16,
                        std::int64_t n) {
    return wide ? static_cast<const void*>(rows.data() + n * kDim)
                : static_cast<const void*>(rows16.data() + n * kDim);
  };
  const KvHeadView quantised{rest(keys, keys16, n_keys), rest(values, values16, n_values),
                             positions.data(),           kSlots,
                             quantised_keys.view(),      quantised_values.view()};
  const KvHeadView plain{plain_keys.data(), plain_values.data(), positions.data(), kSlots};

  CpuBackend backend(1);
  const auto run = [&](const KvHeadView& view, DType kv_dtype) {
    std::vector<float> results(kTokens * kHeads * (kDim + 1 + kSlots));
    float* log_sum_exp = results.data() + kTokens * kHeads * kDim;
    const std::int32_t q_positions[] = {kSlots - 3, kSlots - 2, kSlots - 1};
    AttentionArgs args{};
    args.q = q.data();
    args.q_stride = kHeads * kDim;
    args.out = results.data();
    args.out_dtype = DType::f32;
    args.n_tokens = kTokens;
    args.n_heads = kHeads;
    args.head_dim = kDim;
    args.scale = 0.25f;
    args.kv = {&view, 1};
    args.kv_dtype = kv_dtype;
    args.q_positions = q_positions;
    args.log_sum_exp = log_sum_exp;
    args.rope_shape = {kDim, false};
    if (by_slot) args.slot_rope = {turns.data(), turns.data()};
    backend.attention(args);
    backend.attention_weights({.attention = args,
                               .log_sum_exp = log_sum_exp,
                               .weights = log_sum_exp + kTokens * kHeads,
                               .row_stride = kSlots,
                               .sum_tokens = false});
    return results;
  };
  CHECK(run(quantised, dtype) == run(plain, DType::f32));
}

TEST_CASE("attention reads quantised rows as what they stand for") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool by_slot : {false, true}) {
      for (const std::int64_t n_keys : {0, 8, 64, 72, 144}) {
        for (const std::int64_t n_values : {0, 1, 64, 100, 150}) {
          check_attention(n_keys, n_values, dtype, by_slot);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvbench
