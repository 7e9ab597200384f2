// The attention weights themselves on the CPU, for policies that look at them.
#pragma once

#include <vector>

#include "backend/backend.hpp"
#include "backend/cpu/attention.hpp"

namespace kvbench {

// One tile, ready to meet key blocks in any order.
struct WeightsTile {
  Tile tile;
  std::vector<float> q;               // [head_dim, n_columns]
  std::vector<float> log_sum_exp;     // [n_columns], +inf in padding columns: their weights are 0
  std::vector<float> head_of_column;  // [n_columns, padded(group)] 1 at each column's head
  std::vector<VisibleSlots> visible;  // [tokens of the tile]
};

// `scratch` has one entry per thread; `tiles` is reused from call to call.
void cpu_attention_weights(const AttentionWeightsArgs& args, std::vector<AttentionScratch>& scratch,
                           std::vector<WeightsTile>& tiles);

}  // namespace kvbench
