// RMSNorm: one block per row. The row is read twice, the second time from cache; with one float
// in and one value out per element the kernel is bound by memory, so it does no more than that.
#include <climits>
#include <type_traits>

#include "kernels/common/launch.hpp"
#include "kernels/common/reduce.cuh"
#include "kernels/rmsnorm.hpp"

namespace kvbench {
namespace {

constexpr int kRowThreads = 256;

template <class Out>
__device__ Out to_output(float value) {
  if constexpr (std::is_same_v<Out, float>) {
    return value;
  } else {
    return __float2bfloat16_rn(value);
  }
}

template <class Out>
__global__ void __launch_bounds__(kRowThreads) rms_norm_kernel(RmsNormParams<Out> p) {
  __shared__ float warp_sums[kRowThreads / kWarpSize];
  const float* x = p.x + blockIdx.x * p.x_stride;  // [width]
  Out* out = p.out + blockIdx.x * p.out_stride;    // [width]

  float squares = 0.0f;
  for (std::int64_t i = threadIdx.x; i < p.width; i += kRowThreads) squares += x[i] * x[i];
  squares = block_sum<kRowThreads>(squares, warp_sums);

  // Square root and division, both correctly rounded: rsqrtf would cost up to two more ulp.
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(p.width) + p.epsilon);
  for (std::int64_t i = threadIdx.x; i < p.width; i += kRowThreads) {
    out[i] = to_output<Out>(x[i] * scale * p.weight[i]);
  }
}

}  // namespace

template <class Out>
void rms_norm(const RmsNormParams<Out>& params, cudaStream_t stream) {
  const char* const name = "rms_norm";
  check_contract(params.n_rows >= 0 && params.n_rows <= INT_MAX, name, "0 <= n_rows < 2^31");
  check_contract(params.width > 0, name, "width > 0");
  check_contract(params.x_stride >= params.width, name, "x_stride >= width");
  check_contract(params.out_stride >= params.width, name, "out_stride >= width");
  if (params.n_rows == 0) return;
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(params.n_rows)),
                          .block = dim3(kRowThreads),
                          .stream = stream};
  launch(name, rms_norm_kernel<Out>, shape, params);
}

template void rms_norm<float>(const RmsNormParams<float>&, cudaStream_t);
template void rms_norm<__nv_bfloat16>(const RmsNormParams<__nv_bfloat16>&, cudaStream_t);

}  // namespace kvbench
