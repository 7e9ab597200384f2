// Definitions of core/stats.hpp.
#include "core/stats.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.hpp"

namespace kvbench {

void CompensatedSum::add(double term) {
  const double total = sum_ + term;
  const bool sum_is_larger = std::abs(sum_) >= std::abs(term);
  correction_ += sum_is_larger ? (sum_ - total) + term : (term - total) + sum_;
  sum_ = total;
}

double sum(std::span<const double> values) {
  CompensatedSum total;
  for (const double value : values) total.add(value);
  return total.value();
}

double mean(std::span<const double> values) {
  KVB_CHECK(!values.empty(), "the mean of no values was asked for");
  return sum(values) / static_cast<double>(values.size());
}

std::optional<double> standard_error(std::span<const double> values) {
  if (values.size() < 2) return std::nullopt;
  const double centre = mean(values);
  CompensatedSum squares;
  for (const double value : values) squares.add((value - centre) * (value - centre));
  const auto n = static_cast<double>(values.size());
  return std::sqrt(squares.value() / (n - 1) / n);
}

BlockStandardError block_bootstrap_standard_error(std::span<const double> series,
                                                  std::int64_t block) {
  KVB_CHECK(block > 0, "a bootstrap block of {} values was asked for", block);
  const auto n = static_cast<std::int64_t>(series.size());
  BlockStandardError result;
  // With blocks near n every replicate holds nearly every value, and the error would look like 0.
  constexpr std::int64_t kFewestBlocks = 8;
  result.block = std::min(block, std::max<std::int64_t>(1, n / kFewestBlocks));
  if (n < 2) return result;

  const double centre = mean(series);
  const auto deviation = [&](std::int64_t index) {
    return series[static_cast<std::size_t>(index % n)] - centre;
  };
  CompensatedSum in_block;
  for (std::int64_t index = 0; index < result.block; ++index) in_block.add(deviation(index));
  CompensatedSum squares;
  for (std::int64_t start = 0; start < n; ++start) {
    const double block_sum = in_block.value();
    squares.add(block_sum * block_sum);
    in_block.add(-deviation(start));
    in_block.add(deviation(start + result.block));
  }
  // Variance of a block mean is squares / (n * block^2); a replicate averages n / block of them.
  const auto length = static_cast<double>(n);
  result.value = std::sqrt(squares.value() / static_cast<double>(result.block)) / length;
  return result;
}

double percentile(std::span<const double> values, double share) {
  KVB_CHECK(!values.empty(), "a percentile of no values was asked for");
  KVB_CHECK(share >= 0.0 && share <= 1.0, "percentile share {} is outside [0, 1]", share);
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto lower = static_cast<std::size_t>(place);
  const std::size_t upper = std::min(lower + 1, sorted.size() - 1);
  return std::lerp(sorted[lower], sorted[upper], place - static_cast<double>(lower));
}

Interval wilson_interval(std::int64_t successes, std::int64_t trials, double z) {
  KVB_CHECK(successes >= 0 && successes <= trials, "{} successes of {} trials", successes, trials);
  if (trials == 0) return {};
  const auto n = static_cast<double>(trials);
  const double share = static_cast<double>(successes) / n;
  const double z2 = z * z;
  const double centre = (share + z2 / (2 * n)) / (1 + z2 / n);
  const double half = z / (1 + z2 / n) * std::sqrt(share * (1 - share) / n + z2 / (4 * n * n));
  // At the ends the interval reaches 0 and 1 exactly; rounding would leave it 1e-17 off.
  return {successes == 0 ? 0.0 : centre - half, successes == trials ? 1.0 : centre + half};
}

}  // namespace kvbench
