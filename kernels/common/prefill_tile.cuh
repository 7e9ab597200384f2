// A block's share of a prefill attention: a tile of query rows, and the keys that any of them sees.
#pragma once

#include <cuda_runtime.h>

#include <climits>
#include <cstdint>

#include "kernels/attention.hpp"
#include "kernels/common/reduce.cuh"

namespace kvbench {

// Rows [first_row, first_row + n_rows) of the queries of one KV head, in the order of query_row().
struct PrefillTile {
  int kv_head;
  int group;  // query heads per KV head
  std::int64_t first_row;
  int n_rows;
};

// The tile of this block in a grid [tiles, n_kv_heads]. The last tiles see the most keys: they
// start first.
template <int kRows>
__device__ PrefillTile prefill_tile(const AttentionParams& p) {
  const int group = p.n_heads / p.n_kv_heads;
  const std::int64_t first_row = static_cast<std::int64_t>(gridDim.x - 1 - blockIdx.x) * kRows;
  const std::int64_t rows_left = p.n_tokens * group - first_row;
  return {static_cast<int>(blockIdx.y), group, first_row,
          rows_left < kRows ? static_cast<int>(rows_left) : kRows};
}

// The union of the rows' ranges, found by the first warp: bounds [sink begin, sink end, begin,
// end].
template <int kRows>
__device__ void find_bounds(const VisibleRanges* visible, int* bounds) {
  if (threadIdx.x >= kWarpSize) return;
  int begin[2] = {INT_MAX, INT_MAX};
  int end[2] = {0, 0};
  for (int r = static_cast<int>(threadIdx.x); r < kRows; r += kWarpSize) {
    const VisibleRanges v = visible[r];
    if (v.sink_first < v.sink_last) {
      begin[0] = min(begin[0], v.sink_first);
      end[0] = max(end[0], v.sink_last);
    }
    if (v.first < v.last) {
      begin[1] = min(begin[1], v.first);
      end[1] = max(end[1], v.last);
    }
  }
  for (int s = 0; s < 2; ++s) {
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
      begin[s] = min(begin[s], __shfl_xor_sync(kAllLanes, begin[s], distance));
      end[s] = max(end[s], __shfl_xor_sync(kAllLanes, end[s], distance));
    }
    if (threadIdx.x == 0) {
      bounds[2 * s] = begin[s];
      bounds[2 * s + 1] = end[s];
    }
  }
}

// What each row of the tile sees, visible [kRows], rows behind the last nothing; and their bounds
// [4]. Ends in a barrier.
template <int kRows, int kThreads>
__device__ void find_visible(const AttentionParams& p, const PrefillTile& tile,
                             VisibleRanges* visible, int* bounds) {
  for (int r = static_cast<int>(threadIdx.x); r < kRows; r += kThreads) {
    visible[r] = r < tile.n_rows
                     ? p.visible[tile.kv_head * p.n_tokens + (tile.first_row + r) / tile.group]
                     : VisibleRanges{0, 0, 0, 0};
  }
  __syncthreads();
  find_bounds<kRows>(visible, bounds);
  __syncthreads();
}

}  // namespace kvbench
