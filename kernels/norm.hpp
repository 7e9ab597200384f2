// Norms of rows. Root mean square (Zhang and Sennrich 2019, section 3) and layer norm (Ba et al.
// 2016, section 3), epsilon inside the root; or the row as it is.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/layer_kinds.hpp"

namespace kvbench {

// Device pointers. Preconditions: n_rows >= 0 and below 2^31, width > 0, strides >= width.
template <class Out>
struct NormParams {
  const float* x;       // [n_rows, width], rows x_stride elements apart
  Out* out;             // [n_rows, width], rows out_stride elements apart; may be x itself
  const float* weight;  // [width]; unused by NormKind::none
  const float* bias;    // [width], NormKind::layer only; null: none
  std::int64_t n_rows;
  std::int64_t width;
  std::int64_t x_stride;
  std::int64_t out_stride;
  float epsilon;
  NormKind kind;
  bool accumulate;  // add to out in place of overwriting it
};

// Queues the norm on `stream`. Sums and products are f32; bf16 output is rounded to nearest even.
// Out is float or __nv_bfloat16. Throws InternalError for shapes outside the contract and
// DeviceError when the launch fails.
template <class Out>
void norm_rows(const NormParams<Out>& params, cudaStream_t stream);

}  // namespace kvbench
