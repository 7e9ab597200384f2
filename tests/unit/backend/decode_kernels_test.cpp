// The loops of decoding attention against plain double loops, under every instruction set that this
// machine and this build have in common.
#include "backend/cpu/decode_kernels.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/backend/instruction_sets.hpp"
#include "tests/unit/backend/random_values.hpp"

namespace kvbench {
namespace {

using test::random_floats;
using test::under_every_instruction_set;

constexpr std::int64_t kStride = 70;

struct Rows {
  std::vector<float> values;  // as both dtypes hold them
  std::vector<std::uint16_t> bits;
  std::int64_t n, d;

  Rows(Rng& rng, std::int64_t n_rows, std::int64_t head_dim) : n(n_rows), d(head_dim) {
    values = random_floats(rng, n * d);
    for (float& value : values) {
      bits.push_back(float_to_bf16(value));
      value = bf16_to_float(bits.back());
    }
  }
  tile::StoredRows view(DType dtype) const {
    return {dtype == DType::f32 ? static_cast<const void*>(values.data()) : bits.data(), dtype, n,
            d};
  }
  double at(std::int64_t row, std::int64_t i) const {
    return values[static_cast<std::size_t>(row * d + i)];
  }
};

void check(Rng& rng, std::int64_t n, std::int64_t d, std::int64_t group, DType dtype) {
  CAPTURE(n);
  CAPTURE(d);
  CAPTURE(group);
  const Rows rows(rng, n, d);
  const auto q = random_floats(rng, group * d);
  std::vector<float> scores(static_cast<std::size_t>(group * kStride), 7.0f);
  tile::decode_scores(rows.view(dtype), q.data(), group, scores.data(), kStride);
  auto output = random_floats(rng, group * d);
  std::vector<double> expected_scores;
  std::vector<double> expected_output(output.begin(), output.end());
  std::vector<float> found_scores;
  for (std::int64_t g = 0; g < group; ++g) {
    for (std::int64_t key = 0; key < n; ++key) {
      double dot = 0.0;
      for (std::int64_t i = 0; i < d; ++i) {
        dot += static_cast<double>(q[static_cast<std::size_t>(g * d + i)]) * rows.at(key, i);
      }
      expected_scores.push_back(dot);
      const float score = scores[static_cast<std::size_t>(g * kStride + key)];
      found_scores.push_back(score);
      for (std::int64_t i = 0; i < d; ++i) {
        expected_output[static_cast<std::size_t>(g * d + i)] +=
            static_cast<double>(score) * rows.at(key, i);
      }
    }
    CHECK(scores[static_cast<std::size_t>(g * kStride + n)] == 7.0f);  // nothing beyond
  }
  tile::decode_values(rows.view(dtype), scores.data(), group, kStride, output.data());
  CHECK(test::largest_gap(found_scores, expected_scores) < 1e-4);
  CHECK(test::largest_gap(output, expected_output) < 2e-3);
}

TEST_CASE("decoding: scores and weighted values, groups, head sizes, both dtypes") {
  under_every_instruction_set([] {
    Rng rng(21);
    for (const std::int64_t d : {16, 48, 64, 80, 128}) {
      for (const std::int64_t group : {1, 2, 3, 4, 5, 8}) {
        for (const std::int64_t n : {1, 3, 4, 63, 64}) {
          check(rng, n, d, group, DType::f32);
          check(rng, n, d, group, DType::bf16);
        }
      }
    }
  });
}

TEST_CASE("decoding: softmax in steps, empty rows, weights from a log-sum-exp") {
  under_every_instruction_set([] {
    Rng rng(22);
    const auto all = random_floats(rng, 50);
    float maximum = -std::numeric_limits<float>::infinity();
    float sum = 0.0f;
    std::vector<float> output(5, 0.0f);
    std::vector<float> masked(20, -std::numeric_limits<float>::infinity());
    tile::decode_softmax(masked.data(), 20, maximum, sum, output.data(), 5);
    CHECK(sum == 0.0f);
    CHECK(masked[7] == 0.0f);
    for (std::size_t begin = 0; begin < 50; begin += 25) {
      std::vector<float> part(all.begin() + static_cast<std::ptrdiff_t>(begin),
                              all.begin() + static_cast<std::ptrdiff_t>(begin + 25));
      tile::decode_softmax(part.data(), 25, maximum, sum, output.data(), 5);
      for (float& value : output) value += part.front();
    }
    double total = 0.0;
    for (const float score : all) total += std::exp(static_cast<double>(score) - maximum);
    CHECK(std::abs(sum - total) < 1e-5 * total);
    const double expected = std::exp(static_cast<double>(all[0]) - maximum) +
                            std::exp(static_cast<double>(all[25]) - maximum);
    CHECK(std::abs(output[4] - expected) < 1e-5);

    const auto log_sum_exp = static_cast<float>(maximum + std::log(total));
    std::vector<float> weights = all;
    tile::decode_weights(weights.data(), 50, log_sum_exp);
    double one = 0.0;
    for (const float weight : weights) one += weight;
    CHECK(std::abs(one - 1.0) < 1e-5);
  });
}

}  // namespace
}  // namespace kvbench
