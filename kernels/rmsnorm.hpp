// Root-mean-square norm of rows: out = x / sqrt(mean(x^2) + epsilon) * weight.
// Zhang and Sennrich 2019, section 3; epsilon inside the root as in the Llama family.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace kvbench {

// Device pointers. Preconditions: n_rows >= 0 and below 2^31, width > 0, strides >= width.
template <class Out>
struct RmsNormParams {
  const float* x;       // [n_rows, width], rows x_stride elements apart
  Out* out;             // [n_rows, width], rows out_stride elements apart; may be x itself
  const float* weight;  // [width]
  std::int64_t n_rows;
  std::int64_t width;
  std::int64_t x_stride;
  std::int64_t out_stride;
  float epsilon;
};

// Queues the norm on `stream`. Sums and products are f32; bf16 output is rounded to nearest even.
// Out is float or __nv_bfloat16. Throws InternalError for shapes outside the contract and
// DeviceError when the launch fails.
template <class Out>
void rms_norm(const RmsNormParams<Out>& params, cudaStream_t stream);

}  // namespace kvbench
