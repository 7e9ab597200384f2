// One sequence within forward passes: its cache, and where its tokens stand: in the text, in the
// cache, and for the rotary embedding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "cache/kv_cache.hpp"
#include "cache/positions.hpp"
#include "model/model_config.hpp"
#include "model/rotary.hpp"

namespace kvbench {

class Sequence;
class LayerHook;

// Consecutive tokens of one sequence, its part of one forward pass.
struct ForwardStep {
  Sequence* sequence = nullptr;
  // Of the vocabulary; -1 - i stands for the model's learned sink i.
  std::span<const std::int32_t> ids;
  std::int64_t first_position = 0;  // of ids[0] in the text
  PositionMode positions = PositionMode::original;
  AttentionPattern pattern;
  // cache_index only: slots beyond this one read the sinks as if they stood here, as they would
  // if the cache had been trimmed before each of them. This is what makes a chunk exact.
  std::int64_t sink_slot_limit = kUnlimited;
  bool want_log_sum_exp = false;  // for the layer hook
  LayerHook* hook = nullptr;
};

class Sequence {
 public:
  // All must outlive it.
  Sequence(const ModelConfig& config, Backend& backend, KvCache& cache);

  // Fixes the rotary frequencies for a text of this length. Call before the first step.
  void set_text_length(std::int64_t n_tokens);
  // The rotary embedding of a layer; nullptr where nothing turns.
  const Rotary* rotary(std::int64_t layer) const;
  KvCache& cache() { return cache_; }

  // The three parts that a forward pass asks of a sequence: where the step's tokens stand, and for
  // each layer their entries in the cache, and which of the entries they see from where.
  void place(const ForwardStep& step);
  // Places in the text of the tokens placed last.
  std::span<const std::int32_t> positions() const { return positions_; }
  // k, v: [n_tokens, n_kv_heads, head_dim], rows `stride` apart.
  void append(std::int64_t layer, const float* k, const float* v, std::int64_t stride);
  // Fills in pattern and rotations.
  void describe(std::int64_t layer, AttentionArgs& args) const;

 private:
  // A rotary embedding, and the rows of its tables that a step needs.
  struct Rotation {
    Rotation(Backend& backend, const RopeConfig& config) : rotary(backend, config) {}
    Rotary rotary;
    Rotary::Rows tokens, sinks, slots;
  };

  const Rotation* rotation(std::int64_t layer) const;
  void place_by_slot();

  const ModelConfig& config_;
  Backend& backend_;
  KvCache& cache_;
  std::vector<Rotation> rotations_;              // one per rotary setting
  std::vector<std::int64_t> rotation_of_layer_;  // [n_layers] index, or -1
  ForwardStep step_;                             // placed last
  std::vector<std::int32_t> positions_;          // [n_tokens] of the step, in the text
  std::vector<std::int32_t> token_slots_;        // [n_tokens] cache_index: slots of the tokens
  std::vector<std::int32_t> sink_positions_;     // [n_tokens] the same, as the sinks see them
};

}  // namespace kvbench
