// KV append: one block per token and KV head.
#include <climits>

#include "kernels/common/element.cuh"
#include "kernels/common/launch.hpp"
#include "kernels/common/rotate.cuh"
#include "kernels/kv_append.hpp"

namespace kvbench {
namespace {

constexpr int kHeadThreads = 64;
// Left to itself, the compiler aims at more and spills.
constexpr int kBlocksPerMultiprocessor = 16;

template <class Kv>
__global__ void __launch_bounds__(kHeadThreads, kBlocksPerMultiprocessor)
    kv_append_kernel(KvAppendParams p) {
  const std::int64_t token = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t from = token * p.stride + static_cast<std::int64_t>(head) * p.head_dim;
  Kv* key = static_cast<Kv*>(p.k_rows[head]) + token * p.head_dim;    // [head_dim]
  Kv* value = static_cast<Kv*>(p.v_rows[head]) + token * p.head_dim;  // [head_dim]
  read_rotated(p.k + from, p.head_dim, p.rope, token, thread, kHeadThreads,
               [&](int i, float x) { key[i] = from_float<Kv>(x); });
  for (int i = thread; i < p.head_dim; i += kHeadThreads) value[i] = from_float<Kv>(p.v[from + i]);
}

}  // namespace

void kv_append(const KvAppendParams& params, cudaStream_t stream) {
  const char* const name = "kv_append";
  check_contract(params.n_tokens >= 0 && params.n_tokens <= INT_MAX, name, "0 <= n_tokens < 2^31");
  check_contract(params.n_kv_heads > 0 && params.n_kv_heads < 65536, name, "0 < n_kv_heads < 2^16");
  check_contract(params.head_dim > 0 && params.rope.rotary_dim <= params.head_dim, name,
                 "0 < head_dim, rotary_dim <= head_dim");
  if (params.n_tokens == 0) return;
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(params.n_tokens),
                                       static_cast<unsigned>(params.n_kv_heads)),
                          .block = dim3(kHeadThreads),
                          .stream = stream};
  launch(name, params.kv_bf16 ? kv_append_kernel<__nv_bfloat16> : kv_append_kernel<float>, shape,
         params);
}

}  // namespace kvbench
