// The middle of an MLP: out = activation(gate) * up, or activation(x) without a gate.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/layer_kinds.hpp"

namespace kvbench {

// Device pointers. Preconditions: n_rows >= 0, width > 0.
template <class Out>
struct GatedActivationParams {
  const float* gate_up;  // [n_rows, 2 * width]: gate, then up; [n_rows, width] when not gated
  Out* out;              // [n_rows, width]
  std::int64_t n_rows;
  std::int64_t width;
  Activation activation;
  bool gated;
};

// Out is float or __nv_bfloat16.
template <class Out>
void gated_activation(const GatedActivationParams<Out>& params, cudaStream_t stream);

}  // namespace kvbench
