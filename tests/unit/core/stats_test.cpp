// Random numbers against the generators' published values; statistics against closed forms.
#include "core/stats.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/rng.hpp"

namespace kvbench {
namespace {

TEST_CASE("rng: splitmix64 fills the state, xoshiro256** gives the same numbers everywhere") {
  // Worked out from the published algorithms in another language, for the seed 42.
  Rng rng(42);
  CHECK(rng.next() == 1546998764402558742ULL);
  CHECK(rng.next() == 6990951692964543102ULL);
  CHECK(rng.next() == 12544586762248559009ULL);
}

TEST_CASE("rng: streams of one seed differ, and equal streams repeat") {
  Rng first(7, 1);
  Rng again(7, 1);
  Rng other(7, 2);
  Rng swapped(1, 7);
  const std::uint64_t value = first.next();
  CHECK(again.next() == value);
  CHECK(other.next() != value);
  CHECK(swapped.next() != value);
}

TEST_CASE("rng: below() is uniform, for bounds that a plain modulo would favour") {
  Rng rng(3);
  // 2^64 mod (3 * 2^62) is 2^62: a plain modulo would give the lowest third twice the share.
  const std::uint64_t bound = 3ULL << 62;
  int lowest_third = 0;
  constexpr int kDraws = 30000;
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::uint64_t value = rng.below(bound);
    REQUIRE(value < bound);
    if (value < (1ULL << 62)) ++lowest_third;
  }
  CHECK(lowest_third == doctest::Approx(kDraws / 3.0).epsilon(0.03));
  CHECK(rng.below(1) == 0);
}

TEST_CASE("rng: uniform() is at least 0 and below 1, with mean one half") {
  Rng rng(1);
  std::vector<double> values(20000);
  for (double& value : values) value = rng.uniform();
  CHECK(*std::min_element(values.begin(), values.end()) >= 0.0);
  CHECK(*std::max_element(values.begin(), values.end()) < 1.0);
  CHECK(mean(values) == doctest::Approx(0.5).epsilon(0.02));
}

TEST_CASE("stats: a compensated sum keeps what a plain sum loses") {
  CompensatedSum total;
  total.add(1.0);
  total.add(1e100);
  total.add(1.0);
  total.add(-1e100);
  CHECK(total.value() == 2.0);

  const std::vector<double> tenths(10'000'000, 0.1);
  CHECK(std::abs(sum(tenths) - 1e6) < 1e-9);
}

TEST_CASE("stats: standard error of independent values") {
  const std::vector<double> values{2, 4, 4, 4, 5, 5, 7, 9};
  // Variance with n - 1: 32 / 7.
  CHECK(*standard_error(values) == doctest::Approx(std::sqrt(32.0 / 7 / 8)));
  CHECK_FALSE(standard_error(std::vector<double>{1.0}).has_value());
  CHECK_FALSE(standard_error(std::vector<double>{}).has_value());
}

// The bootstrap as it is usually written: draw blocks, average, take the spread of the averages.
double simulated_block_error(const std::vector<double>& series, std::int64_t block, Rng& rng) {
  std::vector<double> means;
  for (int replicate = 0; replicate < 4000; ++replicate) {
    double total = 0;
    for (std::size_t filled = 0; filled < series.size();) {
      const std::size_t start = rng.below(series.size());
      for (std::int64_t offset = 0; offset < block; ++offset, ++filled) {
        total += series[(start + static_cast<std::size_t>(offset)) % series.size()];
      }
    }
    means.push_back(total / static_cast<double>(series.size()));
  }
  return *standard_error(means) * std::sqrt(static_cast<double>(means.size()));
}

TEST_CASE("stats: the closed form of the block bootstrap equals simulated replicates") {
  Rng rng(5);
  std::vector<double> series;
  double level = 0;  // an autoregressive series, where independence would halve the error bar
  for (int index = 0; index < 640; ++index) {
    level = 0.8 * level + rng.uniform() - 0.5;
    series.push_back(3 + level);
  }
  const BlockStandardError exact = block_bootstrap_standard_error(series, 32);
  CHECK(exact.block == 32);
  CHECK(*exact.value == doctest::Approx(simulated_block_error(series, 32, rng)).epsilon(0.05));
  CHECK(*exact.value > 2 * *standard_error(series));
}

TEST_CASE("stats: blocks of one are the plain bootstrap, short series get smaller blocks") {
  const std::vector<double> values{2, 4, 4, 4, 5, 5, 7, 9};
  CHECK(*block_bootstrap_standard_error(values, 1).value == doctest::Approx(std::sqrt(32.0) / 8));
  CHECK(block_bootstrap_standard_error(values, 64).block == 1);
  CHECK(block_bootstrap_standard_error(std::vector<double>(80, 1.0), 64).block == 10);
  CHECK(*block_bootstrap_standard_error(std::vector<double>(80, 1.0), 64).value == 0.0);
  CHECK_FALSE(block_bootstrap_standard_error(std::vector<double>{1.0}, 64).value.has_value());
}

TEST_CASE("stats: percentiles interpolate between order statistics") {
  const std::vector<double> values{40, 10, 20, 30};
  CHECK(percentile(values, 0.0) == 10);
  CHECK(percentile(values, 0.5) == doctest::Approx(25));
  CHECK(percentile(values, 0.9) == doctest::Approx(37));
  CHECK(percentile(values, 1.0) == 40);
  CHECK(percentile(std::vector<double>{7}, 0.3) == 7);
}

TEST_CASE("stats: Wilson interval at the ends and in the middle") {
  // Newcombe (1998), table I: 81 of 263.
  const Interval interval = wilson_interval(81, 263);
  CHECK(interval.low == doctest::Approx(0.2553).epsilon(1e-3));
  CHECK(interval.high == doctest::Approx(0.3662).epsilon(1e-3));
  CHECK(wilson_interval(0, 20).low == 0.0);
  CHECK(wilson_interval(0, 20).high == doctest::Approx(0.1611).epsilon(1e-3));
  CHECK(wilson_interval(20, 20).high == 1.0);
  CHECK(wilson_interval(0, 0).high == 1.0);
}

}  // namespace
}  // namespace kvbench
