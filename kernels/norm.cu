// Norms: one block per row. The row is read again for each sum and for the result, but from cache;
// with one float in and one value out per element the kernel is bound by memory.
#include "kernels/norm.hpp"

#include <climits>

#include "kernels/common/element.cuh"
#include "kernels/common/launch.hpp"
#include "kernels/common/reduce.cuh"
#include "kernels/common/shared.cuh"

namespace kvbench {
namespace {

constexpr int kRowThreads = 256;
constexpr int kWarps = kRowThreads / kWarpSize;

template <class Out>
__global__ void __launch_bounds__(kRowThreads) norm_rows_kernel(NormParams<Out> p) {
  SharedArena arena;
  float* warp_sums = arena.take<float>(kWarps);
  float* warp_squares = arena.take<float>(kWarps);
  const float* x = p.x + blockIdx.x * p.x_stride;  // [width]
  Out* out = p.out + blockIdx.x * p.out_stride;    // [width]
  const auto width = static_cast<float>(p.width);

  float mean = 0.0f;
  if (p.kind == NormKind::layer) {
    float sum = 0.0f;
    for (std::int64_t i = threadIdx.x; i < p.width; i += kRowThreads) sum += x[i];
    mean = block_sum<kRowThreads>(sum, warp_sums) / width;
  }
  float scale = 1.0f;
  if (p.kind != NormKind::none) {
    float squares = 0.0f;
    for (std::int64_t i = threadIdx.x; i < p.width; i += kRowThreads) {
      squares += (x[i] - mean) * (x[i] - mean);
    }
    squares = block_sum<kRowThreads>(squares, warp_squares);
    // Square root and division, both correctly rounded: rsqrtf would cost up to two more ulp.
    scale = 1.0f / sqrtf(squares / width + p.epsilon);
  }
  for (std::int64_t i = threadIdx.x; i < p.width; i += kRowThreads) {
    float value = (x[i] - mean) * scale;
    if (p.kind != NormKind::none) value *= p.weight[i];
    if (p.bias != nullptr) value += p.bias[i];
    if (p.accumulate) value += to_float(out[i]);
    out[i] = from_float<Out>(value);
  }
}

}  // namespace

template <class Out>
void norm_rows(const NormParams<Out>& params, cudaStream_t stream) {
  const char* const name = "norm_rows";
  check_contract(params.n_rows >= 0 && params.n_rows <= INT_MAX, name, "0 <= n_rows < 2^31");
  check_contract(params.width > 0, name, "width > 0");
  check_contract(params.x_stride >= params.width, name, "x_stride >= width");
  check_contract(params.out_stride >= params.width, name, "out_stride >= width");
  if (params.n_rows == 0) return;
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(params.n_rows)),
                          .block = dim3(kRowThreads),
                          .shared_bytes = 2 * shared_bytes(kWarps, sizeof(float)),
                          .stream = stream};
  launch(name, norm_rows_kernel<Out>, shape, params);
}

template void norm_rows<float>(const NormParams<float>&, cudaStream_t);
template void norm_rows<__nv_bfloat16>(const NormParams<__nv_bfloat16>&, cudaStream_t);

}  // namespace kvbench
