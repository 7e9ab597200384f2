// New keys and values into the cache, each KV head's behind its stored rows; keys rotated on the
// way where the cache holds rotated keys.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/rope.hpp"

namespace kvbench {

// Device pointers. Preconditions: 0 <= n_tokens < 2^31, 0 < n_kv_heads < 2^16, head_dim > 0.
struct KvAppendParams {
  const float* k;  // [n_tokens, n_kv_heads, head_dim], rows `stride` apart
  const float* v;  // [n_tokens, n_kv_heads, head_dim], rows `stride` apart
  std::int64_t stride;
  std::int64_t n_tokens;
  int n_kv_heads;
  int head_dim;
  void* const* k_rows;  // [n_kv_heads]: first free row of each head, [., head_dim]
  void* const* v_rows;  // [n_kv_heads]
  bool kv_bf16;         // the cache's elements: bf16 or f32
  RopeTable rope;       // one row per token
};

void kv_append(const KvAppendParams& params, cudaStream_t stream);

}  // namespace kvbench
