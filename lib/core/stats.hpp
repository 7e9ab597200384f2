// Statistics in double precision: compensated sums, means, error bars, percentiles, intervals.
// Every result depends only on the order of the values given, never on threads or on the locale.
// An error bar that cannot be estimated (too few values) is absent, not zero and not NaN.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace kvbench {

// A running sum whose rounding error does not grow with the number of terms (Neumaier 1974).
class CompensatedSum {
 public:
  void add(double term);
  double value() const { return sum_ + correction_; }

 private:
  double sum_ = 0.0;
  double correction_ = 0.0;
};

double sum(std::span<const double> values);

// Precondition: values is not empty.
double mean(std::span<const double> values);

// Standard error of the mean of independent values; absent below two values.
std::optional<double> standard_error(std::span<const double> values);

// Standard error of the mean of a dependent series by the circular block bootstrap (Politis and
// Romano 1992), absent below two values. For a mean the bootstrap variance has a closed form over
// the n circular blocks, which is what any number of random replicates tends to; it is computed
// here exactly, so it needs neither a seed nor a number of replicates.
struct BlockStandardError {
  std::optional<double> value;
  // What was used: the block asked for, or n/8 where the series holds fewer than 8 such blocks.
  std::int64_t block = 0;
};
BlockStandardError block_bootstrap_standard_error(std::span<const double> series,
                                                  std::int64_t block);

// Percentile with linear interpolation between order statistics; share in [0, 1].
// Precondition: values is not empty and holds no NaN.
double percentile(std::span<const double> values, double share);

struct Interval {
  double low = 0.0;
  double high = 1.0;
};

// Wilson score interval of a proportion; z = 1.96 gives 95 %. No trials: [0, 1].
Interval wilson_interval(std::int64_t successes, std::int64_t trials, double z = 1.959963984540054);

}  // namespace kvbench
