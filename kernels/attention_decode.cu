// Attention for few tokens: grid (splits, KV heads x groups of query rows, tokens). A block takes a
// share of the keys that its token sees and up to kRows of the query heads that read them, so that
// each key comes on chip once for the group. Scores: one thread per key and few rows. Values: a
// pair of columns per thread, keys shared out over groups of threads. The partial results of the
// splits are combined by a second kernel.
#include <algorithm>

#include "kernels/attention.hpp"
#include "kernels/common/attention_tile.cuh"
#include "kernels/common/coded_slots.cuh"
#include "kernels/common/launch.hpp"
#include "kernels/common/shared.cuh"

namespace kvbench {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kRows = 8;  // query heads per block
constexpr int kBlocksPerMultiprocessor = 3;

__host__ __device__ constexpr int tile_keys(int dim) {
  return dim > 0 && dim <= 128 ? 64 : 32;
}

std::size_t decode_shared_bytes(int dim, int head_dim) {
  const auto keys = static_cast<std::size_t>(tile_keys(dim));
  const auto width = static_cast<std::size_t>(padded_row(head_dim));
  return 2 * shared_bytes(kRows * width, sizeof(float)) +
         shared_bytes(keys * width, sizeof(float)) +
         shared_bytes(kRows * static_cast<std::size_t>(padded_row(tile_keys(dim))), sizeof(float)) +
         3 * shared_bytes(kRows, sizeof(float));
}

// A split's share of a row, before normalisation: [head_dim] outputs, then maximum and sum.
__host__ __device__ constexpr std::int64_t partial_width(int head_dim) {
  return head_dim + 2;
}

// Elements 2 * pair and 2 * pair + 1 of a row of kDim elements, or of head_dim.
template <int kDim, class Kv>
__device__ float2 row_pair(const Kv* row, int pair, int head_dim) {
  row += 2 * pair;
  if constexpr (kDim > 0) return load_pair(row);
  return {to_float(row[0]), 2 * pair + 1 < head_dim ? to_float(row[1]) : 0.0f};
}

template <class Kv, int kDim, bool kCoded>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    attention_decode_kernel(AttentionParams p, float* partials) {
  constexpr int kKeys = tile_keys(kDim);
  constexpr int kScoreStride = padded_row(kKeys);
  constexpr int kRowSets = kThreads / kKeys;  // threads that share a key
  constexpr int kRowsEach = kRows / kRowSets;
  const int head_dim = kDim > 0 ? kDim : p.head_dim;
  const int stride = padded_row(head_dim);

  SharedArena arena;
  float* q = arena.take<float>(kRows * stride);              // [kRows, stride]
  float* q_sink = arena.take<float>(kRows * stride);         // [kRows, stride]
  float* key_tile = arena.take<float>(kKeys * stride);       // [kKeys, stride]
  float* weights = arena.take<float>(kRows * kScoreStride);  // [kRows, kScoreStride]
  float* maximum = arena.take<float>(kRows);                 // [kRows]
  float* sum = arena.take<float>(kRows);                     // [kRows]
  float* rescale = arena.take<float>(kRows);                 // [kRows]

  const int group = p.n_heads / p.n_kv_heads;
  const int row_tiles = (group + kRows - 1) / kRows;
  const int kv_head = static_cast<int>(blockIdx.y) / row_tiles;
  const int first_member = static_cast<int>(blockIdx.y) % row_tiles * kRows;
  const int n_rows = min(kRows, group - first_member);
  const std::int64_t token = blockIdx.z;
  const std::int64_t first_row = token * group + first_member;
  const KvRows kv = p.kv[kv_head];
  const Kv* keys = static_cast<const Kv*>(kv.keys);
  const Kv* values = static_cast<const Kv*>(kv.values);

  // The visible slots in a row, sinks first; this block's share of them is [begin, end).
  const VisibleRanges visible = p.visible[kv_head * p.n_tokens + token];
  const int n_sinks = visible.sink_last - visible.sink_first;
  const int n_visible = n_sinks + visible.last - visible.first;
  const int n_splits = static_cast<int>(gridDim.x);
  const int share = ((n_visible + n_splits - 1) / n_splits + kKeys - 1) / kKeys * kKeys;
  const int begin = min(n_visible, static_cast<int>(blockIdx.x) * share);
  const int end = min(n_visible, begin + share);

  load_queries<kThreads>(p, p.q_rope, first_row, kRows, n_rows, kv_head, q);
  load_queries<kThreads>(p, p.q_rope_sink, first_row, kRows, n_rows, kv_head, q_sink);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kRows) {
    // Off by one: as if the first split had already seen a key of score 0 and value 0.
    const bool seen = p.off_by_one && blockIdx.x == 0;
    maximum[thread] = seen ? 0.0f : -INFINITY;
    sum[thread] = seen ? 1.0f : 0.0f;
  }

  // Columns (2 pair, 2 pair + 1) of the keys key_group, key_group + key_groups, ...
  const int pairs = (head_dim + 1) / 2;
  const int key_groups = min(kThreads / pairs, kKeys / kRows);
  const int pair = thread % pairs;
  const int key_group = thread / pairs;
  float out[kRows][2] = {};
  const CodedColumn left(kv.coded_values.layout, head_dim, 2 * pair);
  const CodedColumn right(kv.coded_values.layout, head_dim, min(2 * pair + 1, head_dim - 1));

  for (int tile = begin; tile < end; tile += kKeys) {
    const int n_keys = min(kKeys, end - tile);
    const auto slot_of = [&](int i) {
      const int at = tile + i;
      return static_cast<std::int64_t>(at < n_sinks ? visible.sink_first + at
                                                    : visible.first + at - n_sinks);
    };
    if constexpr (kCoded) {
      load_coded_slots<Kv, kThreads>(kv.coded_keys, keys, head_dim, p.slot_rope, kKeys, n_keys,
                                     slot_of, key_tile);
    } else {
      load_slots<Kv, kDim, kThreads>(keys, head_dim, p.slot_rope, kKeys, n_keys, slot_of, key_tile);
    }
    __syncthreads();

    const int key = thread % kKeys;
    const int row_set = thread / kKeys;
    const float* query = tile + key < n_sinks ? q_sink : q;
    float score[kRowsEach] = {};
    for (int d = 0; d < stride - 4; d += 4) {
      const float4 four = load_four(key_tile + key * stride + d);
#pragma unroll
      for (int i = 0; i < kRowsEach; ++i) {
        score[i] =
            dot_four(load_four(query + (row_set + i * kRowSets) * stride + d), four, score[i]);
      }
    }
    if (has_score_terms(p) && key < n_keys) {
#pragma unroll
      for (int i = 0; i < kRowsEach; ++i) {
        const int row = min(row_set + i * kRowSets, n_rows - 1);
        const QueryRow at = query_row(first_row + row, kv_head, group);
        score[i] = finish_score(p, score[i], at, tile + key < n_sinks, kv, slot_of(key));
      }
    }
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      weights[(row_set + i * kRowSets) * kScoreStride + key] = key < n_keys ? score[i] : -INFINITY;
    }
    __syncthreads();

    for (int r = thread / kWarpSize; r < kRows; r += kWarps) {
      float* row = weights + r * kScoreStride;
      const float before = maximum[r];
      float highest = before;
      for (int k = thread % kWarpSize; k < kKeys; k += kWarpSize) highest = fmaxf(highest, row[k]);
      highest = warp_max(highest);
      // Every tile has at least one key: the maximum is finite, unless a score is not.
      float total = 0.0f;
      for (int k = thread % kWarpSize; k < kKeys; k += kWarpSize) {
        row[k] = expf(row[k] - highest);
        total += row[k];
      }
      total = warp_sum(total);
      if (thread % kWarpSize == 0) {
        rescale[r] = expf(before - highest);
        maximum[r] = highest;
        sum[r] = sum[r] * rescale[r] + total;
      }
    }
    __syncthreads();

    if (key_group < key_groups) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        out[r][0] *= rescale[r];
        out[r][1] *= rescale[r];
      }
#pragma unroll 4
      for (int k = key_group; k < n_keys; k += key_groups) {
        const std::int64_t plain = slot_of(k) - (kCoded ? kv.coded_values.n_rows : 0);
        float2 value;
        if (kCoded && plain < 0) {
          const CodedRow row(kv.coded_values, slot_of(k), head_dim);
          value = {left.of(row), right.of(row)};
        } else {
          value = row_pair<kDim>(values + plain * head_dim, pair, head_dim);
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const float weight = weights[r * kScoreStride + k];
          out[r][0] += weight * value.x;
          out[r][1] += weight * value.y;
        }
      }
    }
    __syncthreads();  // keys and weights are used up
  }

  // The key groups' sums, side by side in the key tile: [key_groups, kRows, head_dim].
  if (key_group < key_groups) {
    for (int r = 0; r < kRows; ++r) {
      float* to = key_tile + (key_group * kRows + r) * head_dim + 2 * pair;
      to[0] = out[r][0];
      if (2 * pair + 1 < head_dim) to[1] = out[r][1];
    }
  }
  __syncthreads();
  for (int i = thread; i < n_rows * head_dim; i += kThreads) {
    const int r = i / head_dim;
    const int column = i % head_dim;
    float total = 0.0f;
    for (int g = 0; g < key_groups; ++g) total += key_tile[(g * kRows + r) * head_dim + column];
    const std::int64_t row = token * p.n_heads + kv_head * group + first_member + r;
    if (n_splits == 1) {
      write_output(p, row * head_dim + column, sum[r] == 0.0f ? 0.0f : total / sum[r]);
      if (p.log_sum_exp != nullptr && column == 0) p.log_sum_exp[row] = maximum[r] + logf(sum[r]);
      continue;
    }
    float* partial = partials + (row * n_splits + blockIdx.x) * partial_width(head_dim);
    partial[column] = total;
    if (column == 0) {
      partial[head_dim] = maximum[r];
      partial[head_dim + 1] = sum[r];
    }
  }
}

// One block per query row; threads own columns.
__global__ void __launch_bounds__(kThreads)
    combine_splits_kernel(AttentionParams p, const float* partials, int n_splits) {
  const std::int64_t width = partial_width(p.head_dim);
  const float* row = partials + blockIdx.x * n_splits * width;  // [n_splits, width]
  float maximum = -INFINITY;
  for (int s = 0; s < n_splits; ++s) maximum = fmaxf(maximum, row[s * width + p.head_dim]);
  for (int column = static_cast<int>(threadIdx.x); column < p.head_dim; column += kThreads) {
    float total = 0.0f;
    float sum = 0.0f;
    for (int s = 0; s < n_splits; ++s) {
      const float* partial = row + s * width;
      // A split without keys has maximum -inf: exp(-inf - -inf) would be NaN if all had none.
      if (partial[p.head_dim + 1] == 0.0f) continue;
      const float weight = expf(partial[p.head_dim] - maximum);
      total += weight * partial[column];
      sum += weight * partial[p.head_dim + 1];
    }
    write_output(p, blockIdx.x * static_cast<std::int64_t>(p.head_dim) + column,
                 sum == 0.0f ? 0.0f : total / sum);
    if (p.log_sum_exp != nullptr && column == 0) p.log_sum_exp[blockIdx.x] = maximum + logf(sum);
  }
}

template <int kDim, bool kCoded>
void launch_decode(const AttentionParams& params, int n_splits, float* partials,
                   cudaStream_t stream) {
  const int group = params.n_heads / params.n_kv_heads;
  const int row_tiles = (group + kRows - 1) / kRows;
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(n_splits),
                                       static_cast<unsigned>(params.n_kv_heads * row_tiles),
                                       static_cast<unsigned>(params.n_tokens)),
                          .block = dim3(kThreads),
                          .shared_bytes = decode_shared_bytes(kDim, params.head_dim),
                          .stream = stream};
  launch("attention_decode",
         params.kv_bf16 ? attention_decode_kernel<__nv_bfloat16, kDim, kCoded>
                        : attention_decode_kernel<float, kDim, kCoded>,
         shape, params, partials);
}

template <bool kCoded>
void launch_by_dim(const AttentionParams& params, int n_splits, float* partials,
                   cudaStream_t stream) {
  switch (params.head_dim) {
    case 64:
      launch_decode<64, kCoded>(params, n_splits, partials, stream);
      break;
    case 80:
      launch_decode<80, kCoded>(params, n_splits, partials, stream);
      break;
    case 96:
      launch_decode<96, kCoded>(params, n_splits, partials, stream);
      break;
    case 128:
      launch_decode<128, kCoded>(params, n_splits, partials, stream);
      break;
    case 256:
      launch_decode<256, kCoded>(params, n_splits, partials, stream);
      break;
    default:
      launch_decode<0, kCoded>(params, n_splits, partials, stream);
      break;
  }
}

}  // namespace

std::size_t decode_partial_floats(const AttentionParams& params, int n_splits) {
  return static_cast<std::size_t>(params.n_tokens * params.n_heads * n_splits *
                                  partial_width(params.head_dim));
}

std::int64_t decode_blocks(const AttentionParams& params) {
  const int group = params.n_heads / params.n_kv_heads;
  return params.n_tokens * params.n_kv_heads * ((group + kRows - 1) / kRows);
}

void attention_decode(const AttentionParams& params, int n_splits, float* partials,
                      cudaStream_t stream) {
  const char* const name = "attention_decode";
  check_attention(params, name);
  check_contract(params.n_tokens < 65536, name, "n_tokens < 2^16");
  check_contract(n_splits > 0, name, "n_splits > 0");
  check_contract(n_splits == 1 || partials != nullptr, name, "several splits have a workspace");
  if (params.n_tokens == 0) return;
  if (params.coded) {
    launch_by_dim<true>(params, n_splits, partials, stream);
  } else {
    launch_by_dim<false>(params, n_splits, partials, stream);
  }
  if (n_splits == 1) return;
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(params.n_tokens * params.n_heads)),
                          .block = dim3(kThreads),
                          .stream = stream};
  launch("combine_splits", combine_splits_kernel, shape, params,
         static_cast<const float*>(partials), n_splits);
}

}  // namespace kvbench
