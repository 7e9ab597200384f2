// The softmax weights themselves: a block takes one KV head and a block of its keys and lets all
// query rows pass by in tiles, so that each output is written by one block in a fixed order. The
// threads are laid out as in attention_prefill.cu.
#include "kernels/attention.hpp"
#include "kernels/common/attention_tile.cuh"
#include "kernels/common/launch.hpp"
#include "kernels/common/shared.cuh"

namespace kvbench {
namespace {

constexpr int kThreads = 128;
constexpr int kBlocksPerMultiprocessor = 4;
constexpr int kRows = 32;  // query rows per tile, all heads of the group counted
constexpr int kRowsEach = kRows / (kThreads / kLanesPerRow);

__host__ __device__ constexpr int tile_keys(int dim) {
  return dim > 0 && dim <= 128 ? 64 : 32;
}

std::size_t weights_shared_bytes(int dim, int head_dim, int group) {
  const auto keys = static_cast<std::size_t>(tile_keys(dim));
  const auto width = static_cast<std::size_t>(padded_row(head_dim));
  return shared_bytes(kRows * width, sizeof(float)) + shared_bytes(keys * width, sizeof(float)) +
         shared_bytes(kRows * keys, sizeof(float)) +
         shared_bytes(static_cast<std::size_t>(group) * keys, sizeof(float));
}

template <class Kv, int kDim>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    attention_weights_kernel(AttentionWeightsParams w) {
  constexpr int kKeys = tile_keys(kDim);
  constexpr int kKeysEach = kKeys / kLanesPerRow;
  const AttentionParams& p = w.attention;
  const int head_dim = kDim > 0 ? kDim : p.head_dim;
  const int stride = padded_row(head_dim);
  const int group = p.n_heads / p.n_kv_heads;

  SharedArena arena;
  float* q = arena.take<float>(kRows * stride);         // [kRows, stride]
  float* key_tile = arena.take<float>(kKeys * stride);  // [kKeys, stride]
  float* tile = arena.take<float>(kRows * kKeys);       // [kRows, kKeys] weights
  float* sums = arena.take<float>(group * kKeys);       // [group, kKeys] over the tokens

  const int kv_head = static_cast<int>(blockIdx.y);
  const KvRows kv = p.kv[kv_head];
  const std::int64_t slot = static_cast<std::int64_t>(blockIdx.x) * kKeys;
  if (slot >= kv.length) return;
  const int n_keys = kv.length - slot < kKeys ? static_cast<int>(kv.length - slot) : kKeys;
  const int thread = static_cast<int>(threadIdx.x);
  const int tx = thread % kLanesPerRow;
  const int my_row = thread / kLanesPerRow * kRowsEach;

  load_slots<Kv, kDim, kThreads>(
      static_cast<const Kv*>(kv.keys), head_dim, p.slot_rope, kKeys, n_keys,
      [&](int r) { return slot + r; }, key_tile);
  for (int i = thread; i < group * kKeys; i += kThreads) sums[i] = 0.0f;

  const std::int64_t all_rows = p.n_tokens * group;
  for (std::int64_t first_row = 0; first_row < all_rows; first_row += kRows) {
    const int n_rows =
        all_rows - first_row < kRows ? static_cast<int>(all_rows - first_row) : kRows;
    load_queries<kThreads>(p, p.q_rope, first_row, kRows, n_rows, kv_head, q);
    __syncthreads();
    float score[kRowsEach][kKeysEach] = {};
    tile_scores(q, key_tile, stride, my_row, tx, score);
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      if (my_row + i >= n_rows) continue;
      const QueryRow at = query_row(first_row + my_row + i, kv_head, group);
      const VisibleRanges visible = p.visible[kv_head * p.n_tokens + at.token];
      const float log_sum_exp = w.log_sum_exp[at.token * p.n_heads + at.head];
#pragma unroll
      for (int j = 0; j < kKeysEach; ++j) {
        const int key = tx + j * kLanesPerRow;
        const bool seen = slot + key >= visible.first && slot + key < visible.last;
        const float finished =
            seen ? finish_score(p, score[i][j], at, false, kv, slot + key) : -INFINITY;
        tile[(my_row + i) * kKeys + key] = seen ? expf(finished - log_sum_exp) : 0.0f;
      }
    }
    __syncthreads();

    if (w.sum_tokens) {
      // One thread per sum: heads follow each other within a token.
      for (int i = thread; i < group * kKeys; i += kThreads) {
        const int member = i / kKeys;
        float total = sums[i];
        const int first = static_cast<int>((member - first_row % group + group) % group);
        for (int r = first; r < n_rows; r += group) total += tile[r * kKeys + i % kKeys];
        sums[i] = total;
      }
    } else {
      for (int i = thread; i < n_rows * kKeys; i += kThreads) {
        const int key = i % kKeys;
        const QueryRow at = query_row(first_row + i / kKeys, kv_head, group);
        if (key < n_keys) {
          w.weights[(at.head * p.n_tokens + at.token) * w.row_stride + slot + key] = tile[i];
        }
      }
    }
    __syncthreads();  // queries and weights are used up
  }
  if (!w.sum_tokens) return;
  for (int i = thread; i < group * kKeys; i += kThreads) {
    const int key = i % kKeys;
    const std::int64_t head = kv_head * group + i / kKeys;
    if (key < n_keys) w.weights[head * w.row_stride + slot + key] = sums[i];
  }
}

template <int kDim>
void launch_weights(const AttentionWeightsParams& params, cudaStream_t stream) {
  const AttentionParams& p = params.attention;
  const std::int64_t blocks = (params.longest + tile_keys(kDim) - 1) / tile_keys(kDim);
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(p.n_kv_heads)),
      .block = dim3(kThreads),
      .shared_bytes = weights_shared_bytes(kDim, p.head_dim, p.n_heads / p.n_kv_heads),
      .stream = stream};
  launch("attention_weights",
         p.kv_bf16 ? attention_weights_kernel<__nv_bfloat16, kDim>
                   : attention_weights_kernel<float, kDim>,
         shape, params);
}

}  // namespace

void attention_weights(const AttentionWeightsParams& params, cudaStream_t stream) {
  const char* const name = "attention_weights";
  check_attention(params.attention, name);
  check_contract(params.row_stride >= params.longest, name, "row_stride >= longest");
  if (params.attention.n_tokens == 0 || params.longest == 0) return;
  switch (params.attention.head_dim) {
    case 64:
      launch_weights<64>(params, stream);
      return;
    case 80:
      launch_weights<80>(params, stream);
      return;
    case 96:
      launch_weights<96>(params, stream);
      return;
    case 128:
      launch_weights<128>(params, stream);
      return;
    case 256:
      launch_weights<256>(params, stream);
      return;
    default:
      launch_weights<0>(params, stream);
      return;
  }
}

}  // namespace kvbench
