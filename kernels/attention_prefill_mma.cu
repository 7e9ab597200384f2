// Attention for many tokens on tensor cores, bf16 in and f32 sums: a block of four warps holds a
// tile of 64 query rows, 16 for each warp, and walks over its keys in blocks, keeping a running
// maximum, sum and output per row in registers (online softmax; Dao, "FlashAttention-2", 2023).
// Values are on their way while scores are computed, the next keys while values are added up.
//
// A lane owns, of its warp's 16 rows, rows lane / 4 and lane / 4 + 8, and of scores and output the
// columns 8 n + lane % 4 * 2 + {0, 1}: what multiply_add leaves it. Scores that have become weights
// lie as the next product wants them.
#include "kernels/attention.hpp"
#include "kernels/common/attention_tile.cuh"
#include "kernels/common/launch.hpp"
#include "kernels/common/mma.cuh"
#include "kernels/common/prefill_tile.cuh"
#include "kernels/common/shared.cuh"
#include "kernels/common/stage_rows.cuh"

namespace kvbench {
namespace {

using Element = __nv_bfloat16;

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kBlocksPerMultiprocessor = 2;
constexpr int kRowsPerWarp = 16;
constexpr int kRows = kWarps * kRowsPerWarp;
constexpr int kLanesPerMmaRow = 4;

__host__ __device__ constexpr int tile_keys(int dim) {
  return dim <= 128 ? 64 : 32;
}

std::size_t shared_bytes_of(int dim) {
  const auto width = static_cast<std::size_t>(padded_row<Element>(dim));
  const auto keys = static_cast<std::size_t>(tile_keys(dim));
  return shared_bytes(kRows * width, sizeof(Element)) +
         2 * shared_bytes(keys * width, sizeof(Element)) +
         shared_bytes(kRows, sizeof(VisibleRanges)) + shared_bytes(4, sizeof(int));
}

template <int kDim>
__device__ void begin_keys(const Element* keys, const RopeTable& rope, int slot, int end,
                           Element* out) {
  constexpr int kKeys = tile_keys(kDim);
  const int n_valid = min(kKeys, end - slot);
  if (rope.cosine == nullptr) {
    begin_rows<kDim, kThreads>(keys, slot, kKeys, n_valid, out);
  } else {
    rotate_rows<kDim, kThreads>(keys, rope, slot, kKeys, n_valid, out);
  }
}

// score += the warp's query rows . keys, both in shared memory.
template <int kDim, int kKeys>
__device__ void multiply_keys(const Element* q, const Element* keys, int lane,
                              float (&score)[kKeys / 8][4]) {
  constexpr int kStride = padded_row<Element>(kDim);
  const Element* a_row = q + lane % 16 * kStride + lane / 16 * 8;
  const Element* b_row = keys + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
  for (int d = 0; d < kDim; d += 16) {
    unsigned a[4];
    load_matrices(a_row + d, a);
#pragma unroll
    for (int k = 0; k < kKeys; k += 16) {
      unsigned b[4];
      load_matrices(b_row + k * kStride + d, b);
      multiply_add(a, b[0], b[1], score[k / 8]);
      multiply_add(a, b[2], b[3], score[k / 8 + 1]);
    }
  }
}

// out += weights . values.
template <int kDim, int kKeys>
__device__ void multiply_values(const unsigned (&weights)[kKeys / 16][4], const Element* values,
                                int lane, float (&out)[kDim / 8][4]) {
  constexpr int kStride = padded_row<Element>(kDim);
  const Element* b_row = values + lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < kKeys; k += 16) {
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      unsigned b[4];
      load_matrices_transposed(b_row + k * kStride + d, b);
      multiply_add(weights[k / 16], b[0], b[1], out[d / 8]);
      multiply_add(weights[k / 16], b[2], b[3], out[d / 8 + 1]);
    }
  }
}

// The two rows of a lane: which slots they see in the running segment, and their softmax so far.
struct LaneRows {
  int first[2], last[2];
  float maximum[2], sum[2];

  // Off by one: as if a key of score 0 and value 0 had been seen already.
  __device__ explicit LaneRows(bool off_by_one) {
    for (int i = 0; i < 2; ++i) {
      maximum[i] = off_by_one ? 0.0f : -INFINITY;
      sum[i] = off_by_one ? 1.0f : 0.0f;
    }
  }
  __device__ void see(const VisibleRanges* visible, int my_row, bool sink) {
    for (int i = 0; i < 2; ++i) {
      const VisibleRanges v = visible[my_row + 8 * i];
      first[i] = sink ? v.sink_first : v.first;
      last[i] = sink ? v.sink_last : v.last;
    }
  }
  __device__ bool sees_some(int begin, int end) const {
    return (first[0] < last[0] && first[0] < end && last[0] > begin) ||
           (first[1] < last[1] && first[1] < end && last[1] > begin);
  }
  __device__ bool sees_all(int begin, int end) const {
    return max(first[0], first[1]) <= begin && min(last[0], last[1]) >= end;
  }
};

// Slots that a row does not see get -inf.
template <int kKeys>
__device__ void hide_scores(const LaneRows& rows, int slot, int lane,
                            float (&score)[kKeys / 8][4]) {
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int at = slot + 8 * n + lane % kLanesPerMmaRow * 2 + e % 2;
      if (at < rows.first[e / 2] || at >= rows.last[e / 2]) score[n][e] = -INFINITY;
    }
  }
}

// Scores become weights, packed as the product with the values wants them; `out` is scaled to the
// new maximum.
template <int kDim, int kKeys>
__device__ void take_softmax(LaneRows& rows, float (&score)[kKeys / 8][4],
                             unsigned (&weights)[kKeys / 16][4], float (&out)[kDim / 8][4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float highest = rows.maximum[i];
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      highest = fmaxf(highest, fmaxf(score[n][2 * i], score[n][2 * i + 1]));
    }
    highest = warp_max<kLanesPerMmaRow>(highest);
    // A row that has seen nothing yet: any finite reference gives weights exp(-inf) = 0.
    const float reference = highest == -INFINITY ? 0.0f : highest;
    const float rescale = __expf(rows.maximum[i] - reference);
    float total = 0.0f;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      const float left = __expf(score[n][2 * i] - reference);
      const float right = __expf(score[n][2 * i + 1] - reference);
      total += left + right;
      weights[n / 2][n % 2 * 2 + i] = pack_bf16(left, right);
    }
    rows.maximum[i] = highest;
    rows.sum[i] = rows.sum[i] * rescale + warp_sum<kLanesPerMmaRow>(total);
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      out[n][2 * i] *= rescale;
      out[n][2 * i + 1] *= rescale;
    }
  }
}

template <int kKeys>
__device__ void finish_scores(const AttentionParams& p, const PrefillTile& tile, int my_row,
                              bool sink, const KvRows& kv, int slot, int end, int lane,
                              float (&score)[kKeys / 8][4]) {
  if (!has_score_terms(p)) return;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    // Rows behind the last repeat it; they see nothing.
    const int row = min(my_row + e / 2 * 8, tile.n_rows - 1);
    const QueryRow at = query_row(tile.first_row + row, tile.kv_head, tile.group);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      const int slot_at = min(slot + 8 * n + lane % kLanesPerMmaRow * 2 + e % 2, end - 1);
      score[n][e] = finish_score(p, score[n][e], at, sink, kv, slot_at);
    }
  }
}

template <int kDim>
__device__ void write_rows(const AttentionParams& p, const PrefillTile& tile, int my_row, int lane,
                           const LaneRows& rows, const float (&out)[kDim / 8][4]) {
  for (int i = 0; i < 2; ++i) {
    const int row = my_row + 8 * i;
    if (row >= tile.n_rows) continue;
    const QueryRow at = query_row(tile.first_row + row, tile.kv_head, tile.group);
    const float inverse = rows.sum[i] == 0.0f ? 0.0f : 1.0f / rows.sum[i];
    Element* to = static_cast<Element*>(p.out) + (at.token * p.n_heads + at.head) * kDim +
                  lane % kLanesPerMmaRow * 2;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      *reinterpret_cast<unsigned*>(to + 8 * n) =
          pack_bf16(out[n][2 * i] * inverse, out[n][2 * i + 1] * inverse);
    }
  }
}

template <int kDim>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    attention_prefill_mma_kernel(AttentionParams p) {
  constexpr int kKeys = tile_keys(kDim);
  constexpr int kStride = padded_row<Element>(kDim);
  SharedArena arena;
  Element* q = arena.take<Element>(kRows * kStride);           // [kRows, kStride]
  Element* key_tile = arena.take<Element>(kKeys * kStride);    // [kKeys, kStride]
  Element* value_tile = arena.take<Element>(kKeys * kStride);  // [kKeys, kStride]
  VisibleRanges* visible = arena.take<VisibleRanges>(kRows);   // [kRows]
  int* bounds = arena.take<int>(4);

  const PrefillTile tile = prefill_tile<kRows>(p);
  const KvRows kv = p.kv[tile.kv_head];
  const Element* keys = static_cast<const Element*>(kv.keys);
  const Element* values = static_cast<const Element*>(kv.values);
  find_visible<kRows, kThreads>(p, tile, visible, bounds);

  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp_row = static_cast<int>(threadIdx.x) / kWarpSize * kRowsPerWarp;
  const int my_row = warp_row + lane / kLanesPerMmaRow;
  LaneRows rows(p.off_by_one);
  float out[kDim / 8][4] = {};

  for (int segment = 0; segment < 2; ++segment) {
    const int begin = bounds[2 * segment];
    const int end = bounds[2 * segment + 1];
    if (begin >= end) continue;
    load_queries<kThreads>(p, segment == 0 ? p.q_rope_sink : p.q_rope, tile.first_row, kRows,
                           tile.n_rows, tile.kv_head, q);
    rows.see(visible, my_row, segment == 0);
    begin_keys<kDim>(keys, p.slot_rope, begin, end, key_tile);

    for (int slot = begin; slot < end; slot += kKeys) {
      finish_copies();
      __syncthreads();  // queries and keys are there, the previous values are used up
      begin_rows<kDim, kThreads>(values, slot, kKeys, min(kKeys, end - slot), value_tile);

      unsigned weights[kKeys / 16][4];
      // The same for all lanes of the warp.
      const bool sees_some = __any_sync(kAllLanes, rows.sees_some(slot, slot + kKeys)) != 0;
      if (sees_some) {
        float score[kKeys / 8][4] = {};
        multiply_keys<kDim, kKeys>(q + warp_row * kStride, key_tile, lane, score);
        finish_scores<kKeys>(p, tile, my_row, segment == 0, kv, slot, end, lane, score);
        if (!rows.sees_all(slot, slot + kKeys)) hide_scores<kKeys>(rows, slot, lane, score);
        take_softmax<kDim, kKeys>(rows, score, weights, out);
      }
      finish_copies();
      __syncthreads();  // the values are there, the keys are used up
      if (slot + kKeys < end) begin_keys<kDim>(keys, p.slot_rope, slot + kKeys, end, key_tile);
      if (sees_some) multiply_values<kDim, kKeys>(weights, value_tile, lane, out);
    }
  }
  write_rows<kDim>(p, tile, my_row, lane, rows, out);
}

template <int kDim>
void launch_prefill_mma(const AttentionParams& params, cudaStream_t stream) {
  const std::int64_t rows = params.n_tokens * (params.n_heads / params.n_kv_heads);
  const std::int64_t tiles = (rows + kRows - 1) / kRows;
  launch("attention_prefill_mma", attention_prefill_mma_kernel<kDim>,
         {.grid = dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(params.n_kv_heads)),
          .block = dim3(kThreads),
          .shared_bytes = shared_bytes_of(kDim),
          .stream = stream},
         params);
}

}  // namespace

bool prefill_uses_tensor_cores(const AttentionParams& params) {
  const int dim = params.head_dim;
  const bool own_kernel = dim == 64 || dim == 80 || dim == 96 || dim == 128 || dim == 256;
  return own_kernel && params.kv_bf16 && params.out_bf16 && params.log_sum_exp == nullptr;
}

void attention_prefill_mma(const AttentionParams& params, cudaStream_t stream) {
  const char* const name = "attention_prefill_mma";
  check_attention(params, name);
  check_contract(prefill_uses_tensor_cores(params), name, "a call for tensor cores");
  if (params.n_tokens == 0) return;
  switch (params.head_dim) {
    case 64:
      launch_prefill_mma<64>(params, stream);
      return;
    case 80:
      launch_prefill_mma<80>(params, stream);
      return;
    case 96:
      launch_prefill_mma<96>(params, stream);
      return;
    case 128:
      launch_prefill_mma<128>(params, stream);
      return;
    default:
      launch_prefill_mma<256>(params, stream);
      return;
  }
}

}  // namespace kvbench
