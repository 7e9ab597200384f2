// Bringing bf16 cache rows into shared memory as they are stored, or rotated on the way.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/common/attention_tile.cuh"
#include "kernels/common/element.cuh"
#include "kernels/common/mma.cuh"

namespace kvbench {

// Begins to bring cache rows [slot, slot + n_valid) into `out` [n, padded_row(kDim)], zero behind
// them; there after finish_copies() and a barrier.
template <int kDim, int kThreads>
__device__ void begin_rows(const __nv_bfloat16* rows, int slot, int n, int n_valid,
                           __nv_bfloat16* out) {
  constexpr int kVectors = kDim / kPerVector<__nv_bfloat16>;
  for (int i = static_cast<int>(threadIdx.x); i < n * kVectors; i += kThreads) {
    const int r = i / kVectors;
    const int column = i % kVectors * kPerVector<__nv_bfloat16>;
    const bool valid = r < n_valid;
    begin_copy(out + r * padded_row<__nv_bfloat16>(kDim) + column,
               rows + static_cast<std::int64_t>(slot + (valid ? r : 0)) * kDim + column, valid);
  }
}

// 16 bytes of a row, rounded from f32.
__device__ inline void store_vector(const float (&values)[8], __nv_bfloat16* to) {
  *reinterpret_cast<uint4*>(to) =
      uint4{pack_bf16(values[0], values[1]), pack_bf16(values[2], values[3]),
            pack_bf16(values[4], values[5]), pack_bf16(values[6], values[7])};
}

// The same for keys that are stored un-rotated: each row is rotated by its slot on the way, eight
// pairs at a time where they lie in vectors.
template <int kDim, int kThreads>
__device__ void rotate_rows(const __nv_bfloat16* rows, const RopeTable& rope, int slot, int n,
                            int n_valid, __nv_bfloat16* out) {
  constexpr int kStride = padded_row<__nv_bfloat16>(kDim);
  constexpr int kVector = kPerVector<__nv_bfloat16>;
  const int half = rope.rotary_dim / 2;
  if (rope.interleaved || half % kVector != 0) {
    load_rotated<__nv_bfloat16, kThreads>(
        rows, kDim, rope, n, n_valid, [&](int r) { return static_cast<std::int64_t>(slot + r); },
        out);
    return;
  }
  const int n_pairs = half / kVector;
  const int n_units = n_pairs + (kDim - 2 * half) / kVector;  // pairs of vectors, then lone ones
  for (int i = static_cast<int>(threadIdx.x); i < n * n_units; i += kThreads) {
    const int r = i / n_units;
    const int unit = i % n_units;
    const int column = unit < n_pairs ? unit * kVector : half + unit * kVector;
    __nv_bfloat16* to = out + r * kStride + column;
    float low[kVector] = {}, high[kVector] = {};
    if (r < n_valid) {
      const std::int64_t at = slot + r;
      load_vector(rows + at * kDim + column, low);
      if (unit < n_pairs) {
        load_vector(rows + at * kDim + column + half, high);
        const float* cosine = rope.cosine + at * half + column;
        const float* sine = rope.sine + at * half + column;
        for (int e = 0; e < kVector; ++e) {
          const float turned = low[e] * cosine[e] - high[e] * sine[e];
          high[e] = high[e] * cosine[e] + low[e] * sine[e];
          low[e] = turned;
        }
      }
    }
    store_vector(low, to);
    if (unit < n_pairs) store_vector(high, to + half);
  }
}

}  // namespace kvbench
