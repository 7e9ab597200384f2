// Rotary embedding of one head's row, and the index of the calling thread.
#pragma once

#include <omp.h>

#include <cstdint>

#include "backend/backend.hpp"

namespace kvbench {

// Turns `row` [head_dim] in place by row `index` of the tables. Null tables leave it alone.
inline void rotate_row(float* row, const RopeRows& rope, std::int64_t index,
                       const RopeShape& shape) {
  if (rope.cosine == nullptr) return;
  const std::int64_t half = shape.rotary_dim / 2;
  const float* cosine = rope.cosine + index * half;
  const float* sine = rope.sine + index * half;
  const std::int64_t step = shape.interleaved ? 2 : 1;
  const std::int64_t partner = shape.interleaved ? 1 : half;
  for (std::int64_t i = 0; i < half; ++i) {
    float& low = row[i * step];
    float& high = row[i * step + partner];
    const float rotated = low * cosine[i] - high * sine[i];
    high = high * cosine[i] + low * sine[i];
    low = rotated;
  }
}

inline int thread_index() {
  return omp_get_thread_num();
}

}  // namespace kvbench
