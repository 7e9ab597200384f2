// Sums and maxima over a warp and over a block. Deterministic: the order of additions depends on
// the block's size alone, so equal inputs give equal bits in every run.
#pragma once

#include <cuda_runtime.h>

namespace kvbench {

constexpr int kWarpSize = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFu;

// The sum over each group of kLanes neighbouring lanes (a power of two), in every one of them. All
// lanes of the warp must take part.
template <int kLanes = kWarpSize, class T>
__device__ inline T warp_sum(T value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

template <int kLanes = kWarpSize>
__device__ inline float warp_max(float value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// The sum over a block of kThreads threads (a multiple of 32, at most 1024), in every thread.
// `shared` [kThreads / 32] is free for other use after the block's next barrier.
template <int kThreads, class T>
__device__ inline T block_sum(T value, T* shared) {
  static_assert(kThreads % kWarpSize == 0 && kThreads <= kWarpSize * kWarpSize);
  constexpr int kWarps = kThreads / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  value = warp_sum(value);
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  return warp_sum(lane < kWarps ? shared[lane] : T{0});
}

// The same for the maximum; -inf where a thread has nothing.
template <int kThreads>
__device__ inline float block_max(float value, float* shared) {
  constexpr int kWarps = kThreads / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  value = warp_max(value);
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  return warp_max(shared[lane < kWarps ? lane : 0]);
}

}  // namespace kvbench
