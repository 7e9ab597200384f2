// The engine's side of LayerView: gathers what a policy needs while the model runs, and shows one
// layer of the cache to it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "cache/kv_cache.hpp"
#include "core/buffer.hpp"
#include "engine/query_moments.hpp"
#include "engine/replay_scores.hpp"
#include "model/model.hpp"
#include "model/rotary.hpp"
#include "model/transformer.hpp"
#include "policy/layer_view.hpp"

namespace kvbench {

class LayerEvidence final : public LayerView {
 public:
  LayerEvidence(const Model& model, Backend& backend, KvCache& cache, const Sequence& sequence,
                const PolicyNeeds& needs);

  // A new sequence.
  void reset();
  // After a layer's attention: remembers what later selections need.
  void collect(const LayerState& state);
  // What `source` has gathered, of which this one needs no more.
  void adopt(const LayerEvidence& source);
  // The layer to show from now on. `state` is that of the step being processed.
  void show(const LayerState& state, std::int64_t tokens_seen, std::int64_t capacity);
  // The second pass, for policies that need one: between a layer's attention and the removal of
  // the pass's entries.
  ReplayScores& replay() { return replay_; }
  // The cache has just kept these slots of a head.
  void keep(std::int64_t layer, std::int64_t kv_head, std::span<const std::int32_t> slots);

  std::span<const std::int32_t> positions(std::int64_t kv_head) const override;
  std::int64_t window_rows() override;
  std::span<const float> window_row(std::int64_t head, std::int64_t row) override;
  double window_log_sum_exp(std::int64_t head, std::int64_t row) override;
  std::span<const double> mass(std::int64_t kv_head) override;
  std::span<const double> query_mean(std::int64_t head) override;
  std::span<const double> query_covariance(std::int64_t head) override;
  std::span<const double> replayed(std::int64_t kv_head) override;
  std::span<const float> keys(std::int64_t kv_head) override;
  std::span<const float> values(std::int64_t kv_head) override;
  std::span<const double> output_norms(std::int64_t head) override;
  std::span<const double> inv_freq() const override;
  double rope_attention_factor() const override;
  bool rope_interleaved() const override;

 private:
  // The newest queries of one layer, oldest first, before rotation.
  struct RecentQueries {
    Buffer q;  // [2 * window, n_heads * head_dim] f32; rows [begin, begin + count)
    std::int64_t begin = 0;
    std::int64_t count = 0;
  };

  void remember_queries(const LayerState& state);
  void add_mass(const LayerState& state);
  void add_moments(const LayerState& state);
  void compute_window();
  void finish_moments();
  std::int64_t longest_head() const;
  const LinearWeight& output_head(std::int64_t head);

  const Model& model_;
  Backend& backend_;
  KvCache& cache_;
  const Sequence& sequence_;
  PolicyNeeds needs_;

  std::vector<RecentQueries> recent_;      // [n_layers]
  std::vector<std::vector<double>> mass_;  // [n_layers * n_kv_heads][length]
  std::vector<QueryMoments> moments_;      // [n_layers]

  const AttentionArgs* attention_ = nullptr;  // of the step shown
  bool window_computed_ = false;
  bool moments_finished_ = false;
  std::vector<double> mean_, covariance_;  // of the layer shown
  ReplayScores replay_;
  std::vector<std::int32_t> window_positions_, window_rope_positions_;
  Rotary::Rows window_rope_;
  Buffer weights_;  // [n_heads, rows, row_stride] f32, as attention_weights writes
  Buffer window_out_, window_log_sum_exp_;
  std::int64_t row_stride_ = 0;
  std::vector<float> host_weights_;                // copy of weights_
  std::vector<float> host_log_sum_exp_;            // copy of window_log_sum_exp_
  std::vector<float> host_queries_;                // one step's queries
  std::vector<std::vector<float>> keys_, values_;  // [n_kv_heads], of the layer shown
  // The output projection's columns of each query head, prepared when first asked for.
  std::vector<std::unique_ptr<LinearWeight>> output_heads_;  // [n_layers * n_heads]
  std::vector<std::vector<double>> output_norms_;            // [n_heads], of the layer shown
  Buffer projected_in_, projected_;                          // rows of values; [rows, hidden] f32
};

}  // namespace kvbench
