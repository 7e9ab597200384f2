// What both attention kernels do to bring queries, keys and values on chip, and to write results.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/attention.hpp"
#include "kernels/common/cuda_error.hpp"
#include "kernels/common/element.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/rotate.cuh"

namespace kvbench {

// The preconditions that both kernels share.
inline void check_attention(const AttentionParams& params, const char* name) {
  check_contract(params.n_tokens >= 0, name, "n_tokens >= 0");
  check_contract(
      params.n_kv_heads > 0 && params.n_heads > 0 && params.n_heads % params.n_kv_heads == 0, name,
      "n_heads is a positive multiple of n_kv_heads");
  check_contract(params.head_dim > 0 && params.head_dim <= kMaxHeadDim, name,
                 "0 < head_dim <= 256");
}

// Rows of tiles are padded to this many elements: 16-byte loads stay aligned, and the eight lanes
// of one load phase, each in its own row, hit different banks.
template <class T = float>
__host__ __device__ constexpr int padded_row(int width) {
  return (width + kPerVector<T> - 1) / kPerVector<T> * kPerVector<T> + kPerVector<T>;
}

// Query heads of one token and KV head, or tokens of a tile: where row `index` of KV head
// `kv_head`'s queries lies. Rows count the group's heads first, then tokens.
struct QueryRow {
  std::int64_t token;
  int head;
};
__device__ inline QueryRow query_row(std::int64_t index, int kv_head, int group) {
  return {index / group, kv_head * group + static_cast<int>(index % group)};
}

// Query rows [first, first + n) rotated and scaled: out [n, padded_row<T>(head_dim)], zero behind
// n_valid rows and behind head_dim. Warps take rows.
template <int kThreads, class T>
__device__ void load_queries(const AttentionParams& p, const RopeTable& rope, std::int64_t first,
                             int n, int n_valid, int kv_head, T* out) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int stride = padded_row<T>(p.head_dim);
  for (int r = warp; r < n; r += kThreads / kWarpSize) {
    T* row = out + r * stride;
    const int valid = r < n_valid ? p.head_dim : 0;
    for (int i = valid + lane; i < stride; i += kWarpSize) row[i] = from_float<T>(0.0f);
    if (valid == 0) continue;
    const QueryRow at = query_row(first + r, kv_head, p.n_heads / p.n_kv_heads);
    const float* q = p.q + at.token * p.q_stride + static_cast<std::int64_t>(at.head) * p.head_dim;
    read_rotated(q, p.head_dim, rope, at.token, lane, kWarpSize,
                 [&](int i, float x) { row[i] = from_float<T>(x * p.scale); });
  }
}

// Cache rows, rotated by the slot where `rope` is not empty: out [n, padded_row<T>(head_dim)], row
// r from slot slot_of(r), zero behind n_valid rows and behind head_dim. Warps take rows.
template <class Kv, int kThreads, class SlotOf, class T>
__device__ void load_rotated(const Kv* rows, int head_dim, const RopeTable& rope, int n,
                             int n_valid, SlotOf slot_of, T* out) {
  const int stride = padded_row<T>(head_dim);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  for (int r = warp; r < n; r += kThreads / kWarpSize) {
    T* row = out + r * stride;
    const int valid = r < n_valid ? head_dim : 0;
    for (int i = valid + lane; i < stride; i += kWarpSize) row[i] = from_float<T>(0.0f);
    if (valid == 0) continue;
    const std::int64_t slot = slot_of(r);
    read_rotated(rows + slot * head_dim, head_dim, rope, slot, lane, kWarpSize,
                 [&](int i, float x) { row[i] = from_float<T>(x); });
  }
}

// The same as f32, without rotation a vector at a time. kDim is the head's size, a multiple of 16,
// or 0 for any.
template <class Kv, int kDim, int kThreads, class SlotOf>
__device__ void load_slots(const Kv* rows, int head_dim, const RopeTable& rope, int n, int n_valid,
                           SlotOf slot_of, float* out) {
  const int stride = padded_row(head_dim);
  if (kDim > 0 && rope.cosine == nullptr) {
    constexpr int kVectors = kDim > 0 ? kDim / kPerVector<Kv> : 1;
    for (int i = static_cast<int>(threadIdx.x); i < n * kVectors; i += kThreads) {
      const int r = i / kVectors;
      const int column = i % kVectors * kPerVector<Kv>;
      float values[kPerVector<Kv>] = {};
      if (r < n_valid) load_vector(rows + slot_of(r) * kDim + column, values);
      float4* to = reinterpret_cast<float4*>(out + r * stride + column);
      for (int v = 0; v < kPerVector<Kv>; v += 4) {
        to[v / 4] = float4{values[v], values[v + 1], values[v + 2], values[v + 3]};
      }
    }
    return;
  }
  load_rotated<Kv, kThreads>(rows, head_dim, rope, n, n_valid, slot_of, out);
}

__device__ inline float4 load_four(const float* row) {
  return *reinterpret_cast<const float4*>(row);
}
__device__ inline float dot_four(float4 a, float4 b, float sum) {
  return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

// Threads of a tile of scores: thread (ty, tx) of a grid with kLanesPerRow columns owns the query
// rows first_row + i and the keys tx + j * kLanesPerRow.
constexpr int kLanesPerRow = 16;

// score[i][j] = query row . key, before cap and bias.
template <int kRowsEach, int kKeysEach>
__device__ void tile_scores(const float* q, const float* keys, int stride, int first_row, int tx,
                            float (&score)[kRowsEach][kKeysEach]) {
  for (int d = 0; d < stride - 4; d += 4) {
    float4 key[kKeysEach];
#pragma unroll
    for (int j = 0; j < kKeysEach; ++j) {
      key[j] = load_four(keys + (tx + j * kLanesPerRow) * stride + d);
    }
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      const float4 query = load_four(q + (first_row + i) * stride + d);
#pragma unroll
      for (int j = 0; j < kKeysEach; ++j) score[i][j] = dot_four(query, key[j], score[i][j]);
    }
  }
}

// Cap and ALiBi bias of one score; both are rare, and the test is the same for all threads.
__device__ inline float finish_score(const AttentionParams& p, float score, const QueryRow& at,
                                     bool sink, const KvRows& kv, std::int64_t slot) {
  if (p.logit_cap > 0.0f) score = p.logit_cap * tanhf(score / p.logit_cap);
  if (p.alibi.slopes == nullptr) return score;
  const std::int32_t* places = sink ? p.alibi.q_sink_places : p.alibi.q_places;
  const auto place = kv.places != nullptr ? kv.places[slot] : static_cast<std::int32_t>(slot);
  return score - p.alibi.slopes[at.head] * static_cast<float>(places[at.token] - place);
}
__device__ inline bool has_score_terms(const AttentionParams& p) {
  return p.logit_cap > 0.0f || p.alibi.slopes != nullptr;
}

__device__ inline void write_output(const AttentionParams& p, std::int64_t index, float value) {
  if (p.out_bf16) {
    static_cast<__nv_bfloat16*>(p.out)[index] = from_float<__nv_bfloat16>(value);
  } else {
    static_cast<float*>(p.out)[index] = value;
  }
}

}  // namespace kvbench
