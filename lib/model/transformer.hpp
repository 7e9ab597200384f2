// The one forward pass. It is written over Backend's operations; families differ only in the data
// of ModelConfig. It appends to a KvCache and reads from it, and knows nothing of policies.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "cache/kv_cache.hpp"
#include "cache/positions.hpp"
#include "core/buffer.hpp"
#include "model/experts.hpp"
#include "model/mlp.hpp"
#include "model/model.hpp"
#include "model/residual_stream.hpp"
#include "model/rotary.hpp"

namespace kvbench {

// One forward pass over consecutive tokens, all layers.
struct ForwardStep {
  // Of the vocabulary; -1 - i stands for the model's learned sink i.
  std::span<const std::int32_t> ids;
  std::int64_t first_position = 0;  // of ids[0] in the text
  PositionMode positions = PositionMode::original;
  AttentionPattern pattern;
  // cache_index only: slots beyond this one read the sinks as if they stood here, as they would
  // if the cache had been trimmed before each of them. This is what makes a chunk exact.
  std::int64_t sink_slot_limit = kUnlimited;
  bool want_log_sum_exp = false;  // for the layer hook
};

// What a layer shows after its attention, before its entries can be evicted.
struct LayerState {
  std::int64_t layer;
  // The attention that was just computed; its log_sum_exp is there if the step asked for it.
  const AttentionArgs& attention;
};

// Called once per layer and step; may evict from that layer of the cache.
class LayerHook {
 public:
  virtual ~LayerHook() = default;
  virtual void after_attention(const LayerState& state, KvCache& cache) = 0;
};

class Transformer {
 public:
  // Model and backend must outlive it. Steps have at most `max_tokens` tokens. Softmax off by one
  // is an attention variant that needs no sinks: exp(x_i) / (1 + sum_j exp(x_j)).
  Transformer(const Model& model, Backend& backend, std::int64_t max_tokens,
              bool softmax_off_by_one = false);

  // Fixes the rotary frequencies for a text of this length. Call before the first step.
  void set_text_length(std::int64_t n_tokens);
  // The rotary embedding of a layer; nullptr where nothing turns.
  const Rotary* rotary(std::int64_t layer) const;

  // Ids must be valid (DataError otherwise). Afterwards the step's hidden states are held.
  void forward(const ForwardStep& step, KvCache& cache, LayerHook* hook);

  // nll[i] = -log p(targets[i]) at the held token first_row + i, natural log.
  void nll(std::int64_t first_row, std::span<const std::int32_t> targets, std::span<double> nll);
  // All logits of the held token `row`. logits: [vocab_size].
  void logits(std::int64_t row, std::span<float> logits);

  std::int64_t max_tokens() const { return max_tokens_; }

 private:
  // A rotary embedding, and the rows of its tables that a step needs.
  struct Rotation {
    Rotation(Backend& backend, const RopeConfig& config) : rotary(backend, config) {}
    Rotary rotary;
    Rotary::Rows tokens, sinks, slots;
  };

  void make_rotations();
  const Rotation* rotation(std::int64_t layer) const;
  void prepare_positions(const ForwardStep& step, const KvCache& cache);
  void attention_block(const ForwardStep& step, std::int64_t layer, KvCache& cache,
                       LayerHook* hook);
  void append_to_cache(const ForwardStep& step, std::int64_t layer, KvCache& cache);
  AttentionArgs attention_args(const ForwardStep& step, std::int64_t layer, KvCache& cache);
  void mlp_block(std::int64_t layer, std::int64_t n_tokens);
  void norm_queries_and_keys(const LayerWeights& w, std::int64_t n_tokens);
  void norm_heads(const Buffer& weight, std::int64_t first_column, std::int64_t n_heads,
                  std::int64_t n_tokens);
  void check_ids(std::span<const std::int32_t> ids) const;
  // Hidden state of a held token, [hidden] in the compute dtype.
  const void* hidden_row(std::int64_t row) const;

  const Model& model_;
  const ModelConfig& config_;
  Backend& backend_;
  std::int64_t max_tokens_;
  bool softmax_off_by_one_;
  std::int64_t qkv_width_;  // (n_heads + 2 n_kv_heads) * head_dim

  ResidualStream stream_;
  Mlp mlp_;
  std::unique_ptr<Experts> experts_;  // null where the MLPs are dense
  Buffer qkv_;                        // [max_tokens, qkv_width] f32: q, k, v side by side
  Buffer attended_;                   // [max_tokens, n_heads * head_dim] compute dtype
  Buffer log_sum_exp_;                // [max_tokens, n_heads] f32
  Buffer logits_;                     // [vocab] f32

  std::vector<Rotation> rotations_;              // one per rotary setting
  std::vector<std::int64_t> rotation_of_layer_;  // [n_layers] index, or -1
  std::vector<std::int32_t> positions_;          // [n_tokens] of the step, in the text
  std::vector<std::int32_t> token_slots_;        // [n_tokens] cache_index: slots of the tokens
  std::vector<std::int32_t> sink_positions_;     // [n_tokens] the same, as the sinks see them
  std::vector<const LinearWeight*> vocabulary_;
};

}  // namespace kvbench
