// A layer with random keys and values, for tests of scorers: no model, no engine.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "core/error.hpp"
#include "policy/layer_view.hpp"

namespace kvbench::test {

class RandomLayerView final : public LayerView {
 public:
  RandomLayerView(std::int64_t length, std::int64_t kv_heads, std::int64_t heads_per_group,
                  std::int64_t dim)
      : positions_(static_cast<std::size_t>(length)),
        keys_(static_cast<std::size_t>(length * dim)),
        values_(keys_.size()) {
    n_layers = 1;
    n_kv_heads = kv_heads;
    group = heads_per_group;
    n_heads = kv_heads * group;
    head_dim = dim;
    tokens_seen = length;
    capacity = length;
    scale = 1.0 / std::sqrt(static_cast<double>(dim));
    std::iota(positions_.begin(), positions_.end(), 0);
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    for (float& x : keys_) x = normal(random);
    for (float& x : values_) x = normal(random);
  }

  // The same for all KV heads: [length, head_dim].
  std::vector<float>& mutable_keys() { return keys_; }
  std::vector<float>& mutable_values() { return values_; }
  // Gives a query head its raw scores of the window, [rows][length], -inf where hidden.
  void set_window(std::vector<std::vector<std::vector<double>>> scores_by_head) {
    window_scores_ = std::move(scores_by_head);
  }

  std::span<const std::int32_t> positions(std::int64_t) const override { return positions_; }
  std::int64_t window_rows() override {
    return static_cast<std::int64_t>(window_scores_.at(0).size());
  }
  std::span<const float> window_row(std::int64_t head, std::int64_t row) override {
    row_.clear();
    for (const double score : window_score(head, row)) {
      row_.push_back(static_cast<float>(std::exp(score - window_log_sum_exp(head, row))));
    }
    return row_;
  }
  double window_log_sum_exp(std::int64_t head, std::int64_t row) override {
    double sum = 0.0;
    for (const double score : window_score(head, row)) sum += std::exp(score);
    return std::log(sum);
  }
  std::span<const float> keys(std::int64_t) override { return keys_; }
  std::span<const float> values(std::int64_t) override { return values_; }

  std::span<const double> mass(std::int64_t) override { return none(); }
  std::span<const double> query_mean(std::int64_t) override { return none(); }
  std::span<const double> query_covariance(std::int64_t) override { return none(); }
  std::span<const double> output_norms(std::int64_t) override { return none(); }
  std::span<const double> replayed(std::int64_t) override { return none(); }
  std::span<const double> inv_freq() const override { return {}; }
  double rope_attention_factor() const override { return 1.0; }
  bool rope_interleaved() const override { return false; }

 private:
  const std::vector<double>& window_score(std::int64_t head, std::int64_t row) const {
    return window_scores_.at(static_cast<std::size_t>(head)).at(static_cast<std::size_t>(row));
  }
  static std::span<const double> none() { throw InternalError("not part of this view"); }

  std::vector<std::int32_t> positions_;
  std::vector<float> keys_, values_, row_;
  std::vector<std::vector<std::vector<double>>> window_scores_;
};

}  // namespace kvbench::test
