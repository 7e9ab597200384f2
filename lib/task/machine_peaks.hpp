// What the machine can do at best, measured on the spot, so that a speed can be given as a share.
#pragma once

#include <cstdint>

#include "backend/backend.hpp"
#include "core/dtype.hpp"

namespace kvbench {

struct MachinePeaks {
  // One pass of a single row through matrices larger than any cache: bytes of weights per second.
  double read_bytes_per_s = 0.0;
  // A large matrix product of the compute dtype.
  double flops_per_s = 0.0;
};

struct PeakEffort {
  std::int64_t width = 2048;                     // of the square matrices
  std::int64_t product_rows = 1024;              // rows of the large product
  std::int64_t bytes_read = INT64_C(256) << 20;  // far more than a last-level cache holds
  int tries = 5;
};
// Good for the order of magnitude: some tenths of a second.
inline constexpr PeakEffort kQuickPeaks{
    .width = 1024, .product_rows = 256, .bytes_read = INT64_C(64) << 20, .tries = 5};

// The best of a few tries; without `effort` about a second in all.
MachinePeaks measure_peaks(Backend& backend, DType compute, const PeakEffort& effort = {});

// The higher of each.
MachinePeaks best_of(const MachinePeaks& a, const MachinePeaks& b);

}  // namespace kvbench
