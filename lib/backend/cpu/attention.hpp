// Attention on the CPU: blocked, online softmax, cost proportional to the entries that are seen.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cpu/attention_tile.hpp"

namespace kvbench {

// Working memory of one thread; grows to the largest tile and is then reused.
struct AttentionScratch {
  std::vector<float> q;                           // [head_dim, n_columns]
  std::vector<float> q_sink;                      // [head_dim, n_columns] rotated for the sinks
  std::vector<float> keys;                        // [kKeyBlock, head_dim] widened, rotated
  std::vector<float> values;                      // [kKeyBlock, head_dim] widened
  std::vector<std::uint32_t> pairs;               // [kKeyBlock, head_dim / 2] of keys or values
  std::vector<float> scores;                      // [kKeyBlock, n_columns]
  std::vector<float> output;                      // [head_dim, n_columns]
  std::vector<float> maximum;                     // [n_columns]
  std::vector<float> sum;                         // [n_columns]
  std::vector<VisibleSlots> visible;              // [tokens of the tile]
  std::vector<std::int32_t> first_key, last_key;  // [n_columns] visible keys of the block
};

// `scratch` has one entry per thread.
void cpu_attention(const AttentionArgs& args, std::vector<AttentionScratch>& scratch);

}  // namespace kvbench
