// Sums over a warp and over a block. Deterministic: the order of additions depends on the block's
// size alone, so equal inputs give equal bits in every run.
#pragma once

#include <cuda_runtime.h>

namespace kvbench {

constexpr int kWarpSize = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// The sum over a warp's 32 lanes, in every lane. All lanes must take part.
__device__ inline float warp_sum(float value) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

// The sum over a block of kThreads threads (a multiple of 32, at most 1024), in every thread.
// `shared` [kThreads / 32] is free for other use after the block's next barrier.
template <int kThreads>
__device__ inline float block_sum(float value, float* shared) {
  static_assert(kThreads % kWarpSize == 0 && kThreads <= kWarpSize * kWarpSize);
  constexpr int kWarps = kThreads / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  value = warp_sum(value);
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  return warp_sum(lane < kWarps ? shared[lane] : 0.0f);
}

}  // namespace kvbench
