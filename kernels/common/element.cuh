// Elements in memory and in registers: everything is computed in f32, stored as f32 or bf16.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace kvbench {

__device__ inline float to_float(float value) {
  return value;
}
__device__ inline float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ inline float to_float(__half value) {
  return __half2float(value);
}

// Rounded to nearest even.
template <class Out>
__device__ Out from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// Elements that one 16-byte load brings.
template <class T>
constexpr int kPerVector = static_cast<int>(16 / sizeof(T));

// The first and second element of a pair that was loaded as one word.
__device__ inline float low_bf16(unsigned pair) {
  return __uint_as_float(pair << 16);
}
__device__ inline float high_bf16(unsigned pair) {
  return __uint_as_float(pair & 0xFFFF0000u);
}

// Two neighbours in one load. Precondition: aligned to the pair.
__device__ inline float2 load_pair(const float* address) {
  return *reinterpret_cast<const float2*>(address);
}
__device__ inline float2 load_pair(const __nv_bfloat16* address) {
  const unsigned pair = *reinterpret_cast<const unsigned*>(address);
  return {low_bf16(pair), high_bf16(pair)};
}

// 16 bytes, widened: out [kPerVector<T>]. Precondition: aligned to 16 bytes.
__device__ inline void load_vector(const float* address, float* out) {
  const float4 v = *reinterpret_cast<const float4*>(address);
  out[0] = v.x;
  out[1] = v.y;
  out[2] = v.z;
  out[3] = v.w;
}
__device__ inline void load_vector(const __nv_bfloat16* address, float* out) {
  const uint4 v = *reinterpret_cast<const uint4*>(address);
  const unsigned pairs[4] = {v.x, v.y, v.z, v.w};
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = low_bf16(pairs[i]);
    out[2 * i + 1] = high_bf16(pairs[i]);
  }
}

}  // namespace kvbench
