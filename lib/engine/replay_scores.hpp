// What entries of the prompt receive in a second pass behind it: see ReplayNeeds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "core/buffer.hpp"
#include "model/model_config.hpp"
#include "model/transformer.hpp"
#include "policy/layer_view.hpp"

namespace kvbench {

class ReplayScores {
 public:
  ReplayScores(Backend& backend, const ModelConfig& config, const ReplayNeeds& needs);

  // A new pass over a prompt of this many tokens, which are the first slots of every head.
  void begin(std::int64_t prompt_tokens);
  // What follows reconstructs slots [first, end) of the prompt.
  void begin_chunk(std::int64_t first, std::int64_t end);
  // Tokens that one forward of the pass may have, so that its weights fit into moderate memory.
  std::int64_t tokens_per_step() const;
  // After a layer's attention, whose log-sum-exp must be there.
  void collect(const LayerState& state);
  // [prompt tokens]
  std::span<const double> scores(std::int64_t layer, std::int64_t kv_head) const;

 private:
  void collect_largest(const LayerState& state);
  void collect_sums(const LayerState& state);
  void read_weights(const LayerState& state, bool sum_tokens);
  void read_rest(const LayerState& state);

  Backend& backend_;
  std::int64_t n_heads_;
  std::int64_t n_kv_heads_;
  std::int64_t group_;
  ReplayNeeds needs_;
  std::int64_t prompt_tokens_ = 0;
  std::int64_t chunk_first_ = 0;
  std::int64_t chunk_end_ = 0;
  std::vector<std::vector<double>> scores_;  // [n_layers * n_kv_heads][prompt tokens]
  Buffer weights_;                           // as attention_weights writes
  std::vector<float> host_weights_;          // copy of weights_
  std::vector<float> rest_;                  // [n_tokens, n_heads]
  std::int64_t row_stride_ = 0;
};

}  // namespace kvbench
