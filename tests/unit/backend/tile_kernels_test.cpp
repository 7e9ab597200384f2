// The SIMD loops against plain double loops, under every instruction set that this machine and
// this build have in common.
#include "backend/cpu/tile_kernels.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/unit/backend/instruction_sets.hpp"
#include "tests/unit/backend/random_values.hpp"

namespace kvbench {
namespace {

using test::random_floats;
using test::under_every_instruction_set;

TEST_CASE("rotation of halves") {
  under_every_instruction_set([] {
    Rng rng(7);
    for (const std::int64_t half : {1, 4, 8, 15, 16, 32, 40}) {
      auto row = random_floats(rng, 2 * half);
      const auto cosine = random_floats(rng, half);
      const auto sine = random_floats(rng, half);
      std::vector<double> expected(row.begin(), row.end());
      const std::size_t n = cosine.size();
      for (std::size_t i = 0; i < n; ++i) {
        const double low = row[i];
        const double high = row[n + i];
        expected[i] = low * cosine[i] - high * sine[i];
        expected[n + i] = high * cosine[i] + low * sine[i];
      }
      tile::rotate_halves(row.data(), cosine.data(), sine.data(), half);
      CHECK(test::largest_gap(row, expected) < 1e-6);
    }
  });
}

TEST_CASE("product: odd sizes, both strides of A, overwriting and adding") {
  under_every_instruction_set([] {
    Rng rng(1);
    for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 12, 64, 80}) {
      for (const std::int64_t inner : {1, 3, 64, 80}) {
        for (const std::int64_t columns : {16, 32, 48, 64, 80, 128}) {
          const auto a = random_floats(rng, rows * inner);
          const auto b = random_floats(rng, inner * columns);
          for (const bool accumulate : {false, true}) {
            for (const bool transposed : {false, true}) {
              auto c = random_floats(rng, rows * columns);
              std::vector<double> expected(c.begin(), c.end());
              for (std::int64_t r = 0; r < rows; ++r) {
                for (std::int64_t j = 0; j < columns; ++j) {
                  auto& sum = expected[static_cast<std::size_t>(r * columns + j)];
                  if (!accumulate) sum = 0.0;
                  for (std::int64_t i = 0; i < inner; ++i) {
                    const std::int64_t at = transposed ? i * rows + r : r * inner + i;
                    sum += static_cast<double>(a[static_cast<std::size_t>(at)]) *
                           b[static_cast<std::size_t>(i * columns + j)];
                  }
                }
              }
              tile::product({.a = a.data(),
                             .a_row = transposed ? 1 : inner,
                             .a_inner = transposed ? rows : 1,
                             .b = b.data(),
                             .c = c.data(),
                             .n_rows = rows,
                             .n_inner = inner,
                             .n_columns = columns,
                             .accumulate = accumulate});
              REQUIRE(test::largest_gap(c, expected) < 1e-4);
            }
          }
        }
      }
    }
  });
}

// Rows of bf16 packed in pairs, from floats in place and from stored rows, and their product.
TEST_CASE("product of pairs: odd inner sizes, both ways of packing") {
  under_every_instruction_set([] {
    Rng rng(11);
    for (const std::int64_t inner : {1, 2, 7, 64}) {
      for (const std::int64_t rows : {1, 6, 17, 80}) {
        constexpr std::int64_t kColumns = 80;
        const auto a = test::rounded(random_floats(rng, inner * rows), DType::bf16);
        const auto b = test::rounded(random_floats(rng, inner * kColumns), DType::bf16);
        const std::int64_t lanes = (inner + 1) / 2;
        std::vector<std::uint32_t> a_pairs(static_cast<std::size_t>(lanes * rows));
        tile::pack_row_pairs(test::to_bf16(a).data(), inner, rows, a_pairs.data());
        auto b_pairs = b;
        tile::pack_row_pairs(b_pairs.data(), inner, kColumns);
        auto c = random_floats(rng, rows * kColumns);
        std::vector<double> expected(c.begin(), c.end());
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t j = 0; j < kColumns; ++j) {
            for (std::int64_t i = 0; i < inner; ++i) {
              expected[static_cast<std::size_t>(r * kColumns + j)] +=
                  static_cast<double>(a[static_cast<std::size_t>(i * rows + r)]) *
                  b[static_cast<std::size_t>(i * kColumns + j)];
            }
          }
        }
        tile::product(
            tile::PairProductArgs{.a = a_pairs.data(),
                                  .a_row = 1,
                                  .a_inner = rows,
                                  .b = reinterpret_cast<const std::uint32_t*>(b_pairs.data()),
                                  .c = c.data(),
                                  .n_rows = rows,
                                  .n_inner = lanes,
                                  .n_columns = kColumns,
                                  .accumulate = true});
        REQUIRE(test::largest_gap(c, expected) < 1e-4);
      }
    }
  });
}

TEST_CASE("packing pairs rounds to nearest even and keeps a NaN one") {
  under_every_instruction_set([] {
    std::vector<float> rows(32, 1.0f);
    const std::uint32_t bits[] = {0x7FFFFFFFu, 0xFFFFFFFFu, 0x3F808000u, 0x3F818000u, 0x7F800000u};
    for (std::size_t i = 0; i < std::size(bits); ++i) rows[i] = std::bit_cast<float>(bits[i]);
    std::vector<std::uint16_t> expected;
    for (std::size_t i = 0; i < 16; ++i) expected.push_back(float_to_bf16(rows[i]));
    tile::pack_row_pairs(rows.data(), 2, 16);
    for (std::size_t i = 0; i < 16; ++i) {
      const auto pair = std::bit_cast<std::uint32_t>(rows[i]);
      CHECK((pair & 0xFFFFu) == expected[i]);
      CHECK((pair >> 16) == 0x3F80u);
    }
  });
}

struct SoftmaxState {
  std::vector<float> maximum, sum, output;
};

// Three blocks of keys, the second hidden from some queries: as one softmax over all of them.
void check_softmax(bool masked, double limit) {
  constexpr std::int64_t kKeys = 21, kQueries = 32, kOutput = 3;
  Rng rng(2);
  SoftmaxState state{std::vector<float>(kQueries, -INFINITY), std::vector<float>(kQueries, 0.0f),
                     std::vector<float>(kOutput * kQueries, 0.0f)};
  std::vector<std::vector<double>> seen(kQueries);  // scores, per query
  for (int block = 0; block < 3; ++block) {
    auto scores = random_floats(rng, kKeys * kQueries, limit);
    std::vector<std::int32_t> first(kQueries, 0), last(kQueries, kKeys);
    for (std::int64_t q = 0; masked && q < kQueries; ++q) {
      first[static_cast<std::size_t>(q)] = static_cast<std::int32_t>(q % 5);
      last[static_cast<std::size_t>(q)] =
          static_cast<std::int32_t>(block == 1 && q % 3 == 0 ? 0 : kKeys - q % 7);
    }
    for (std::int64_t q = 0; q < kQueries; ++q) {
      for (std::int64_t key = first[static_cast<std::size_t>(q)];
           key < last[static_cast<std::size_t>(q)]; ++key) {
        seen[static_cast<std::size_t>(q)].push_back(
            scores[static_cast<std::size_t>(key * kQueries + q)]);
      }
    }
    // What was gathered so far counts its weights, so that rescaling shows in it, too.
    tile::softmax_step({.scores = scores.data(),
                        .first_key = masked ? first.data() : nullptr,
                        .last_key = masked ? last.data() : nullptr,
                        .maximum = state.maximum.data(),
                        .sum = state.sum.data(),
                        .output = state.output.data(),
                        .n_keys = kKeys,
                        .n_queries = kQueries,
                        .n_output = kOutput});
    for (std::int64_t i = 0; i < kOutput; ++i) {
      for (std::int64_t key = 0; key < kKeys; ++key) {
        for (std::int64_t q = 0; q < kQueries; ++q) {
          state.output[static_cast<std::size_t>(i * kQueries + q)] +=
              scores[static_cast<std::size_t>(key * kQueries + q)];
        }
      }
    }
  }
  for (std::size_t q = 0; q < kQueries; ++q) {
    const double maximum = *std::max_element(seen[q].begin(), seen[q].end());
    double sum = 0.0;
    for (const double score : seen[q]) sum += std::exp(score - maximum);
    CHECK(state.maximum[q] == maximum);
    CHECK(std::abs(state.sum[q] / sum - 1.0) < 1e-5);
    for (std::size_t i = 0; i < kOutput; ++i) {
      CHECK(std::abs(state.output[i * kQueries + q] / sum - 1.0) < 1e-5);
    }
  }
}

TEST_CASE("softmax over blocks: masked, unmasked, small and large scores") {
  under_every_instruction_set([] {
    for (const double limit : {0.1, 3.0, 60.0}) {
      check_softmax(false, limit);
      check_softmax(true, limit);
    }
  });
}

TEST_CASE("softmax: a query that sees nothing yet stays empty and finite") {
  under_every_instruction_set([] {
    std::vector<float> scores(4 * 16, 1.0f), maximum(16, -INFINITY), sum(16, 0.0f),
        output(16, 0.0f);
    const std::vector<std::int32_t> none(16, 0);
    tile::softmax_step({.scores = scores.data(),
                        .first_key = none.data(),
                        .last_key = none.data(),
                        .maximum = maximum.data(),
                        .sum = sum.data(),
                        .output = output.data(),
                        .n_keys = 4,
                        .n_queries = 16,
                        .n_output = 1});
    for (const float weight : scores) CHECK(weight == 0.0f);
    for (const float total : sum) CHECK(total == 0.0f);
    for (const float value : output) CHECK(value == 0.0f);
  });
}

double log_sum_exp(const std::vector<float>& logits) {
  const double maximum = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - maximum);
  return maximum + std::log(sum);
}

TEST_CASE("log-sum-exp: in one piece and in several, logits far from zero") {
  under_every_instruction_set([] {
    Rng rng(3);
    for (const std::int64_t n : {1, 2, 15, 16, 17, 1000, 1024, 1025, 49152}) {
      for (const float shift : {0.0f, 5000.0f, -5000.0f}) {
        auto logits = random_floats(rng, n, 8.0);
        for (float& logit : logits) logit += shift;
        const double expected = log_sum_exp(logits);
        for (const std::int64_t piece : {n, std::int64_t{7}, n / 2 + 1}) {
          if (n / piece > 2000) continue;
          tile::LogSumExp state{-INFINITY, 0.0};
          for (std::int64_t begin = 0; begin < n; begin += piece) {
            tile::fold_logits(logits.data() + begin, std::min(piece, n - begin), state);
          }
          CHECK(std::abs(state.maximum + std::log(state.sum) - expected) < 2e-6);
        }
      }
    }
  });
}

// A NaN must not vanish in a maximum or count as weight 0, wherever it stands.
TEST_CASE("a NaN among scores or logits reaches the result") {
  under_every_instruction_set([] {
    for (const std::size_t at : {0u, 5u, 16u, 39u}) {
      std::vector<float> logits(40, 1.0f);
      logits[at] = NAN;
      tile::LogSumExp state{-INFINITY, 0.0};
      tile::fold_logits(logits.data(), 40, state);
      CHECK(std::isnan(state.maximum + std::log(state.sum)));
    }
    for (const std::size_t key : {0u, 1u, 3u}) {
      std::vector<float> scores(4 * 16, 1.0f), maximum(16, -INFINITY), sum(16, 0.0f);
      scores[key * 16 + 2] = NAN;
      tile::softmax_step({.scores = scores.data(),
                          .first_key = nullptr,
                          .last_key = nullptr,
                          .maximum = maximum.data(),
                          .sum = sum.data(),
                          .output = nullptr,
                          .n_keys = 4,
                          .n_queries = 16,
                          .n_output = 0});
      CHECK(std::isnan(sum[2]));
      CHECK(sum[3] == 4.0f);
    }
  });
}

TEST_CASE("sums of squares and scaling, odd lengths") {
  under_every_instruction_set([] {
    Rng rng(5);
    for (const std::int64_t n : {1, 7, 16, 33, 576, 4097}) {
      const auto x = random_floats(rng, n);
      const auto weight = random_floats(rng, n);
      double sum = 0.0;
      for (const float value : x) sum += static_cast<double>(value) * value;
      CHECK(std::abs(tile::sum_of_squares(x.data(), n) / sum - 1.0) < 1e-5);
      std::vector<float> out(static_cast<std::size_t>(n));
      tile::scale_by(x.data(), weight.data(), 0.37f, n, out.data());
      for (std::size_t i = 0; i < out.size(); ++i) {
        CHECK(std::abs(out[i] - static_cast<double>(x[i]) * 0.37 * weight[i]) < 1e-6);
      }
    }
  });
}

TEST_CASE("bf16: every bit pattern widens exactly, and rounding is that of the scalar conversion") {
  under_every_instruction_set([] {
    std::vector<std::uint16_t> all(65536);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    std::vector<float> wide(all.size());
    tile::bf16_to_floats(all.data(), static_cast<std::int64_t>(all.size()), wide.data());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const float expected = bf16_to_float(all[i]);
      REQUIRE(std::memcmp(&wide[i], &expected, sizeof(float)) == 0);
    }
    // Bits below the kept ones: ties, just under, just over, and the lengths' tails.
    std::vector<float> fine;
    for (const std::uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      for (std::uint32_t high = 0; high < 65536; high += 7) {
        const std::uint32_t bits = (high << 16) | low;
        float value;
        std::memcpy(&value, &bits, sizeof(value));
        fine.push_back(value);
      }
    }
    std::vector<std::uint16_t> narrow(fine.size());
    tile::floats_to_bf16(fine.data(), static_cast<std::int64_t>(fine.size()), narrow.data());
    CHECK(narrow == test::to_bf16(fine));
  });
}

}  // namespace
}  // namespace kvbench
