// Embedding look-up: one block per token copies a row.
#include <climits>

#include "kernels/common/element.cuh"
#include "kernels/common/launch.hpp"
#include "kernels/embed.hpp"

namespace kvbench {
namespace {

constexpr int kRowThreads = 256;

template <class In>
__global__ void __launch_bounds__(kRowThreads) embed_kernel(EmbedParams p) {
  const In* row = static_cast<const In*>(p.table) + p.ids[blockIdx.x] * p.width;  // [width]
  float* out = p.out + blockIdx.x * p.width;                                      // [width]
  for (std::int64_t i = threadIdx.x; i < p.width; i += kRowThreads) out[i] = to_float(row[i]);
}

}  // namespace

void embed(const EmbedParams& params, cudaStream_t stream) {
  const char* const name = "embed";
  check_contract(params.n_rows >= 0 && params.n_rows <= INT_MAX, name, "0 <= n_rows < 2^31");
  check_contract(params.width > 0, name, "width > 0");
  if (params.n_rows == 0) return;
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(params.n_rows)),
                          .block = dim3(kRowThreads),
                          .stream = stream};
  switch (params.table_dtype) {
    case TableDtype::f32:
      launch(name, embed_kernel<float>, shape, params);
      return;
    case TableDtype::f16:
      launch(name, embed_kernel<__half>, shape, params);
      return;
    case TableDtype::bf16:
      launch(name, embed_kernel<__nv_bfloat16>, shape, params);
      return;
  }
}

}  // namespace kvbench
