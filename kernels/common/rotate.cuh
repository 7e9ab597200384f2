// Reading a head's row with its rotary embedding applied.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/common/element.cuh"
#include "kernels/rope.hpp"

namespace kvbench {

// Calls store(i, value) once for each element i of the row, rotated by the table's row `index`.
// The work is shared by `n_threads` threads that all call this with their own `thread`.
template <class In, class Store>
__device__ void read_rotated(const In* row, int width, const RopeTable& rope, std::int64_t index,
                             int thread, int n_threads, Store store) {
  const int half = rope.cosine == nullptr ? 0 : rope.rotary_dim / 2;
  const float* cosine = rope.cosine + index * half;
  const float* sine = rope.sine + index * half;
  for (int i = thread; i < width - half; i += n_threads) {
    if (i >= half) {
      store(i + half, to_float(row[i + half]));
      continue;
    }
    const int low = rope.interleaved ? 2 * i : i;
    const int high = rope.interleaved ? 2 * i + 1 : i + half;
    const float a = to_float(row[low]);
    const float b = to_float(row[high]);
    store(low, a * cosine[i] - b * sine[i]);
    store(high, b * cosine[i] + a * sine[i]);
  }
}

}  // namespace kvbench
