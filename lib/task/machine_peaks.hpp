// What the machine can do at best, measured on the spot, so that a speed can be given as a share.
#pragma once

#include "backend/backend.hpp"
#include "core/dtype.hpp"

namespace kvbench {

struct MachinePeaks {
  // One pass of a single row through matrices larger than any cache: bytes of weights per second.
  double read_bytes_per_s = 0.0;
  // A large matrix product of the compute dtype.
  double flops_per_s = 0.0;
};

// The best of a few tries, about a second in all.
MachinePeaks measure_peaks(Backend& backend, DType compute);

// The higher of each.
MachinePeaks best_of(const MachinePeaks& a, const MachinePeaks& b);

}  // namespace kvbench
