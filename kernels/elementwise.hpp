// Small operations on f32 arrays, element by element.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace kvbench {

// The bias of a matrix product, laid down before it or added to what is there. Device pointers.
// Preconditions: n_rows >= 0, width > 0.
struct BiasParams {
  float* y;           // [n_rows, width]
  const float* bias;  // [width]
  std::int64_t n_rows;
  std::int64_t width;
  bool accumulate;  // y += bias in place of y = bias
};
void spread_bias(const BiasParams& params, cudaStream_t stream);

// x [n] = min(max(x * factor, -limit), limit); a NaN stays one. Precondition: n >= 0.
struct ScaleParams {
  float* x;  // [n]
  std::int64_t n;
  float factor;
  float limit;  // infinity: none
};
void scale_elements(const ScaleParams& params, cudaStream_t stream);

}  // namespace kvbench
