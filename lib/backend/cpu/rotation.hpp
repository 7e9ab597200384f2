// Rotary embedding of one head's row, and the index of the calling thread.
#pragma once

#include <omp.h>

#include <cstdint>

#include "backend/backend.hpp"
#include "backend/cpu/tile_kernels.hpp"

namespace kvbench {

// Turns `row` [head_dim] in place by row `index` of the tables. Null tables leave it alone.
inline void rotate_row(float* row, const RopeRows& rope, std::int64_t index,
                       const RopeShape& shape) {
  if (rope.cosine == nullptr) return;
  const std::int64_t half = shape.rotary_dim / 2;
  const float* cosine = rope.cosine + index * half;
  const float* sine = rope.sine + index * half;
  if (!shape.interleaved) return tile::rotate_halves(row, cosine, sine, half);
  for (std::int64_t i = 0; i < half; ++i) {
    float& low = row[2 * i];
    float& high = row[2 * i + 1];
    const float rotated = low * cosine[i] - high * sine[i];
    high = high * cosine[i] + low * sine[i];
    low = rotated;
  }
}

// Within CpuBackend::for_each the loops of operations have one thread, and it is that of the outer
// team which counts.
inline int thread_index() {
  return omp_get_level() == 0 ? 0 : omp_get_ancestor_thread_num(1);
}

}  // namespace kvbench
