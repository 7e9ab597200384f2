// Gated activation: element by element, in grid strides; bound by memory.
#include <algorithm>

#include "kernels/common/element.cuh"
#include "kernels/common/launch.hpp"
#include "kernels/gated_activation.hpp"

namespace kvbench {
namespace {

constexpr int kBlockThreads = 256;
constexpr std::int64_t kMaxBlocks = 65536;

__device__ float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::silu:
      return x / (1.0f + expf(-x));
    case Activation::gelu:
      return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case Activation::gelu_tanh: {
      // x (1 + tanh z) / 2 with z = sqrt(2/pi) (x + 0.044715 x^3) is x sigmoid(2 z).
      const float twice_z = 1.5957691216057308f * (x + 0.044715f * x * x * x);
      return x / (1.0f + expf(-twice_z));
    }
  }
  return 0.0f;
}

template <class Out>
__global__ void __launch_bounds__(kBlockThreads)
    gated_activation_kernel(GatedActivationParams<Out> p) {
  const std::int64_t n = p.n_rows * p.width;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlockThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x; i < n;
       i += step) {
    if (!p.gated) {
      p.out[i] = from_float<Out>(activate(p.activation, p.gate_up[i]));
      continue;
    }
    const std::int64_t row = i / p.width;
    const float* gate = p.gate_up + row * p.width + i;  // row starts at 2 * row * width
    p.out[i] = from_float<Out>(activate(p.activation, gate[0]) * gate[p.width]);
  }
}

}  // namespace

template <class Out>
void gated_activation(const GatedActivationParams<Out>& params, cudaStream_t stream) {
  const char* const name = "gated_activation";
  check_contract(params.n_rows >= 0, name, "n_rows >= 0");
  check_contract(params.width > 0, name, "width > 0");
  if (params.n_rows == 0) return;
  const std::int64_t blocks = (params.n_rows * params.width + kBlockThreads - 1) / kBlockThreads;
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(std::min(blocks, kMaxBlocks))),
                          .block = dim3(kBlockThreads),
                          .stream = stream};
  launch(name, gated_activation_kernel<Out>, shape, params);
}

template void gated_activation<float>(const GatedActivationParams<float>&, cudaStream_t);
template void gated_activation<__nv_bfloat16>(const GatedActivationParams<__nv_bfloat16>&,
                                              cudaStream_t);

}  // namespace kvbench
