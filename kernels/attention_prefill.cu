// Attention for many tokens in f32 arithmetic: a block holds a tile of query rows (all heads of a
// group counted) and walks over its keys in blocks, keeping a running maximum, sum and output per
// row (online softmax; Dao et al. 2022, section 3.1). Threads form a grid of 8 x 16: thread (ty,
// tx) owns the tile rows ty * kRowsEach + i, and of the keys and of the output every 16th column
// from tx on. A row's 16 owners are neighbouring lanes, so that its softmax needs no shared memory.
#include "kernels/attention.hpp"
#include "kernels/common/attention_tile.cuh"
#include "kernels/common/launch.hpp"
#include "kernels/common/prefill_tile.cuh"
#include "kernels/common/shared.cuh"

namespace kvbench {
namespace {

constexpr int kThreads = 128;
constexpr int kBlocksPerMultiprocessor = 2;
constexpr int kRowGroups = kThreads / kLanesPerRow;

// Tile sizes by head size: the largest that leave room for two blocks on a multiprocessor.
__host__ __device__ constexpr int tile_rows(int dim) {
  return dim > 0 && dim <= 128 ? 64 : 32;
}
__host__ __device__ constexpr int tile_keys(int dim) {
  return dim > 0 && dim <= 128 ? 64 : 32;
}

std::size_t prefill_shared_bytes(int dim, int head_dim) {
  const auto rows = static_cast<std::size_t>(tile_rows(dim));
  const auto keys = static_cast<std::size_t>(tile_keys(dim));
  const auto width = static_cast<std::size_t>(padded_row(head_dim));
  return shared_bytes(rows * width, sizeof(float)) + shared_bytes(keys * width, sizeof(float)) +
         shared_bytes(rows * static_cast<std::size_t>(padded_row(tile_keys(dim))), sizeof(float)) +
         shared_bytes(rows, sizeof(VisibleRanges)) + shared_bytes(4, sizeof(int));
}

template <class Kv, int kDim>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    attention_prefill_kernel(AttentionParams p) {
  constexpr int kRows = tile_rows(kDim);
  constexpr int kKeys = tile_keys(kDim);
  constexpr int kRowsEach = kRows / kRowGroups;
  constexpr int kKeysEach = kKeys / kLanesPerRow;
  constexpr int kColumnsEach = (kDim > 0 ? kDim : kMaxHeadDim) / kLanesPerRow;
  constexpr int kScoreStride = padded_row(kKeys);
  const int head_dim = kDim > 0 ? kDim : p.head_dim;
  const int stride = padded_row(head_dim);

  SharedArena arena;
  float* q = arena.take<float>(kRows * stride);               // [kRows, stride]
  float* kv_tile = arena.take<float>(kKeys * stride);         // [kKeys, stride] keys, values
  float* weights = arena.take<float>(kRows * kScoreStride);   // [kRows, kScoreStride]
  VisibleRanges* visible = arena.take<VisibleRanges>(kRows);  // [kRows]
  int* bounds = arena.take<int>(4);

  const auto [kv_head, group, first_row, n_rows] = prefill_tile<kRows>(p);
  const KvRows kv = p.kv[kv_head];
  const Kv* keys = static_cast<const Kv*>(kv.keys);
  const Kv* values = static_cast<const Kv*>(kv.values);
  find_visible<kRows, kThreads>(p, {kv_head, group, first_row, n_rows}, visible, bounds);

  const int tx = static_cast<int>(threadIdx.x) % kLanesPerRow;
  const int ty = static_cast<int>(threadIdx.x) / kLanesPerRow;
  const int my_row = ty * kRowsEach;
  float maximum[kRowsEach], sum[kRowsEach], out[kRowsEach][kColumnsEach];
#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    // Off by one: as if a key of score 0 and value 0 had been seen already.
    maximum[i] = p.off_by_one ? 0.0f : -INFINITY;
    sum[i] = p.off_by_one ? 1.0f : 0.0f;
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) out[i][c] = 0.0f;
  }

  for (int segment = 0; segment < 2; ++segment) {
    const int begin = bounds[2 * segment];
    const int end = bounds[2 * segment + 1];
    if (begin >= end) continue;
    const RopeTable& rope = segment == 0 ? p.q_rope_sink : p.q_rope;
    load_queries<kThreads>(p, rope, first_row, kRows, n_rows, kv_head, q);
    int first[kRowsEach], last[kRowsEach];
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      const VisibleRanges v = visible[my_row + i];
      first[i] = segment == 0 ? v.sink_first : v.first;
      last[i] = segment == 0 ? v.sink_last : v.last;
    }

    for (int slot = begin; slot < end; slot += kKeys) {
      const int n_keys = min(kKeys, end - slot);
      const auto slot_of = [&](int r) { return static_cast<std::int64_t>(slot + r); };
      load_slots<Kv, kDim, kThreads>(keys, head_dim, p.slot_rope, kKeys, n_keys, slot_of, kv_tile);
      __syncthreads();

      float score[kRowsEach][kKeysEach] = {};
      tile_scores(q, kv_tile, stride, my_row, tx, score);
      if (has_score_terms(p)) {
#pragma unroll
        for (int i = 0; i < kRowsEach; ++i) {
          // Rows behind the last repeat it; they see nothing.
          const int row = min(my_row + i, n_rows - 1);
          const QueryRow at = query_row(first_row + row, kv_head, group);
#pragma unroll
          for (int j = 0; j < kKeysEach; ++j) {
            const int slot_at = min(slot + tx + j * kLanesPerRow, end - 1);
            score[i][j] = finish_score(p, score[i][j], at, segment == 0, kv, slot_at);
          }
        }
      }

#pragma unroll
      for (int i = 0; i < kRowsEach; ++i) {
        float highest = maximum[i];
#pragma unroll
        for (int j = 0; j < kKeysEach; ++j) {
          const int at = slot + tx + j * kLanesPerRow;
          if (at < first[i] || at >= last[i]) score[i][j] = -INFINITY;
          highest = fmaxf(highest, score[i][j]);
        }
        highest = warp_max<kLanesPerRow>(highest);
        // A row that has seen nothing yet: any finite reference gives weights exp(-inf) = 0.
        const float reference = highest == -INFINITY ? 0.0f : highest;
        const float rescale = expf(maximum[i] - reference);
        float total = 0.0f;
#pragma unroll
        for (int j = 0; j < kKeysEach; ++j) {
          const float weight = expf(score[i][j] - reference);
          total += weight;
          weights[(my_row + i) * kScoreStride + tx + j * kLanesPerRow] = weight;
        }
        maximum[i] = highest;
        sum[i] = sum[i] * rescale + warp_sum<kLanesPerRow>(total);
#pragma unroll
        for (int c = 0; c < kColumnsEach; ++c) out[i][c] *= rescale;
      }
      __syncthreads();  // the keys are used up
      load_slots<Kv, kDim, kThreads>(values, head_dim, RopeTable{}, kKeys, n_keys, slot_of,
                                     kv_tile);
      __syncthreads();

      for (int k = 0; k < kKeys; k += 4) {
        float4 weight[kRowsEach];
#pragma unroll
        for (int i = 0; i < kRowsEach; ++i) {
          weight[i] = load_four(weights + (my_row + i) * kScoreStride + k);
        }
#pragma unroll
        for (int c = 0; c < kColumnsEach; ++c) {
          const int column = tx + c * kLanesPerRow;
          if (kDim == 0 && column >= head_dim) continue;
          const float* value = kv_tile + k * stride + column;
          const float4 four = {value[0], value[stride], value[2 * stride], value[3 * stride]};
#pragma unroll
          for (int i = 0; i < kRowsEach; ++i) out[i][c] = dot_four(weight[i], four, out[i][c]);
        }
      }
      __syncthreads();  // the values and weights are used up
    }
  }

#pragma unroll
  for (int i = 0; i < kRowsEach; ++i) {
    if (my_row + i >= n_rows) continue;
    const QueryRow at = query_row(first_row + my_row + i, kv_head, group);
    const float inverse = sum[i] == 0.0f ? 0.0f : 1.0f / sum[i];
    if (p.log_sum_exp != nullptr && tx == 0) {
      p.log_sum_exp[at.token * p.n_heads + at.head] = maximum[i] + logf(sum[i]);
    }
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) {
      const int column = tx + c * kLanesPerRow;
      if (kDim == 0 && column >= head_dim) continue;
      write_output(p, (at.token * p.n_heads + at.head) * head_dim + column, out[i][c] * inverse);
    }
  }
}

template <int kDim>
void launch_prefill(const AttentionParams& params, cudaStream_t stream) {
  const std::int64_t rows = params.n_tokens * (params.n_heads / params.n_kv_heads);
  const std::int64_t tiles = (rows + tile_rows(kDim) - 1) / tile_rows(kDim);
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(params.n_kv_heads)),
      .block = dim3(kThreads),
      .shared_bytes = prefill_shared_bytes(kDim, params.head_dim),
      .stream = stream};
  launch("attention_prefill",
         params.kv_bf16 ? attention_prefill_kernel<__nv_bfloat16, kDim>
                        : attention_prefill_kernel<float, kDim>,
         shape, params);
}

}  // namespace

void attention_prefill(const AttentionParams& params, cudaStream_t stream) {
  const char* const name = "attention_prefill";
  check_attention(params, name);
  if (params.n_tokens == 0) return;
  if (prefill_uses_tensor_cores(params)) {
    attention_prefill_mma(params, stream);
    return;
  }
  switch (params.head_dim) {
    case 64:
      launch_prefill<64>(params, stream);
      return;
    case 80:
      launch_prefill<80>(params, stream);
      return;
    case 96:
      launch_prefill<96>(params, stream);
      return;
    case 128:
      launch_prefill<128>(params, stream);
      return;
    case 256:
      launch_prefill<256>(params, stream);
      return;
    default:
      launch_prefill<0>(params, stream);
      return;
  }
}

}  // namespace kvbench
