// Bringing cache rows on chip where the first ones are stored as codes.
#pragma once

#include "kernels/common/attention_tile.cuh"
#include "kernels/common/coded_row.cuh"

namespace kvbench {

// As load_slots, of slots whose first coded.n_rows are coded; `rows` are those behind them.
template <class Kv, int kThreads, class SlotOf>
__device__ void load_coded_slots(const CodedRows& coded, const Kv* rows, int head_dim,
                                 const RopeTable& rope, int n, int n_valid, SlotOf slot_of,
                                 float* out) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int stride = padded_row(head_dim);
  for (int r = warp; r < n; r += kThreads / kWarpSize) {
    float* row = out + r * stride;
    const auto store = [&](int i, float x) { row[i] = x; };
    const int valid = r < n_valid ? head_dim : 0;
    for (int i = valid + lane; i < stride; i += kWarpSize) row[i] = 0.0f;
    if (valid == 0) continue;
    const std::int64_t slot = slot_of(r);
    if (slot >= coded.n_rows) {
      const Kv* plain = rows + (slot - coded.n_rows) * head_dim;
      read_rotated(plain, head_dim, rope, slot, lane, kWarpSize, store);
      continue;
    }
    CodedRow(coded, slot, head_dim).read(lane, kWarpSize, store);
    if (rope.cosine == nullptr) continue;
    __syncwarp();  // a pair's elements come from two lanes
    read_rotated(row, head_dim, rope, slot, lane, kWarpSize, store);
  }
}

}  // namespace kvbench
