// The one forward pass. It is written over Backend's operations; families differ only in the data
// of ModelConfig. Its rows are tokens of one sequence or of several: products with the weights take
// them all, and attention goes through the cache of each. It knows nothing of policies.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "cache/kv_cache.hpp"
#include "core/buffer.hpp"
#include "model/experts.hpp"
#include "model/mlp.hpp"
#include "model/model.hpp"
#include "model/residual_stream.hpp"
#include "model/sequence.hpp"

namespace kvbench {

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
  // Whether hooks of several sequences may run at once: it touches nothing that others do, and
  // calls no operation that Backend::for_each excludes.
  virtual bool runs_beside_others() const { return false; }
};

class Transformer {
 public:
  // Model and backend must outlive it. Steps have at most `max_tokens` tokens. Softmax off by one
  // is an attention variant that needs no sinks: exp(x_i) / (1 + sum_j exp(x_j)).
  Transformer(const Model& model, Backend& backend, std::int64_t max_tokens,
              bool softmax_off_by_one = false);

  // All layers, for one step of each of these sequences. Ids must be valid (DataError otherwise).
  // Afterwards the hidden states are held, one row per token, step after step.
  void forward(std::span<const ForwardStep> steps);

  // nll[i] = -log p(targets[i]) at the held token first_row + i, natural log.
  void nll(std::int64_t first_row, std::span<const std::int32_t> targets, std::span<double> nll);
  // All logits of the held tokens from `first_row` on. logits: [n, vocab_size].
  void logits(std::int64_t first_row, std::span<float> logits);

  std::int64_t max_tokens() const { return max_tokens_; }
  // Forward passes so far: what is held is that of the last one.
  std::int64_t passes() const { return passes_; }

 private:
  void gather(std::span<const ForwardStep> steps);
  void attention_block(std::span<const ForwardStep> steps, std::int64_t layer);
  void attend(const ForwardStep& step, std::int64_t first_row, std::int64_t layer);
  AttentionArgs attention_args(const ForwardStep& step, std::int64_t first_row, std::int64_t layer);
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
  Buffer logits_;                     // [rows, block of the vocabulary] f32, of the last call

  std::int64_t passes_ = 0;
  std::vector<std::int32_t> ids_, positions_;  // [n_tokens] of the pass
  std::vector<std::int64_t> first_rows_;       // [steps]
  std::vector<const LinearWeight*> vocabulary_;
};

}  // namespace kvbench
