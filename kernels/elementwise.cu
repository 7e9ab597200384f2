// Element-wise kernels, in grid strides; bound by memory.
#include "kernels/elementwise.hpp"

#include <algorithm>

#include "kernels/common/launch.hpp"

namespace kvbench {
namespace {

constexpr int kBlockThreads = 256;
constexpr std::int64_t kMaxBlocks = 65536;

LaunchShape shape_for(std::int64_t n, cudaStream_t stream) {
  const std::int64_t blocks = (n + kBlockThreads - 1) / kBlockThreads;
  return {.grid = dim3(static_cast<unsigned>(std::min(blocks, kMaxBlocks))),
          .block = dim3(kBlockThreads),
          .stream = stream};
}

__device__ std::int64_t first_element() {
  return static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
}

__global__ void __launch_bounds__(kBlockThreads) spread_bias_kernel(BiasParams p) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlockThreads;
  for (std::int64_t i = first_element(); i < p.n_rows * p.width; i += step) {
    p.y[i] = (p.accumulate ? p.y[i] : 0.0f) + p.bias[i % p.width];
  }
}

__global__ void __launch_bounds__(kBlockThreads) scale_elements_kernel(ScaleParams p) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlockThreads;
  for (std::int64_t i = first_element(); i < p.n; i += step) {
    const float value = p.x[i] * p.factor;
    p.x[i] = value > p.limit ? p.limit : value < -p.limit ? -p.limit : value;
  }
}

}  // namespace

void spread_bias(const BiasParams& params, cudaStream_t stream) {
  const char* const name = "spread_bias";
  check_contract(params.n_rows >= 0, name, "n_rows >= 0");
  check_contract(params.width > 0, name, "width > 0");
  if (params.n_rows == 0) return;
  launch(name, spread_bias_kernel, shape_for(params.n_rows * params.width, stream), params);
}

void scale_elements(const ScaleParams& params, cudaStream_t stream) {
  const char* const name = "scale_elements";
  check_contract(params.n >= 0, name, "n >= 0");
  if (params.n == 0) return;
  launch(name, scale_elements_kernel, shape_for(params.n, stream), params);
}

}  // namespace kvbench
