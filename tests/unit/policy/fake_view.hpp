// A layer for tests of policies, without model or engine: random keys and values, everything else
// as the test writes it. Asking for what the test did not write is an error.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "policy/layer_view.hpp"

namespace kvbench::test {

class FakeView final : public LayerView {
 public:
  // Every KV head holds positions 0 .. length-1.
  FakeView(std::int64_t length, std::int64_t kv_heads, std::int64_t heads_per_group,
           std::int64_t dim)
      : stored_keys(static_cast<std::size_t>(length * dim)),
        stored_values(stored_keys.size()),
        positions_(static_cast<std::size_t>(length)) {
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
    for (float& x : stored_keys) x = normal(random);
    for (float& x : stored_values) x = normal(random);
  }
  // A layer of which only the attention matters: [n_heads][window][length].
  FakeView(std::vector<std::vector<std::vector<float>>> weights, std::int64_t kv_heads)
      : FakeView(static_cast<std::int64_t>(weights.front().front().size()), kv_heads,
                 static_cast<std::int64_t>(weights.size()) / kv_heads, 1) {
    window_weights = std::move(weights);
  }

  // The weights of the window's queries from their scores, [n_heads][window][length], -inf where
  // hidden.
  void set_window(const std::vector<std::vector<std::vector<double>>>& scores) {
    window_weights.clear();
    log_sum_exp_.clear();
    for (const auto& head : scores) {
      window_weights.emplace_back();
      log_sum_exp_.emplace_back();
      for (const auto& row : head) {
        double sum = 0.0;
        for (const double score : row) sum += std::exp(score);
        std::vector<float> weights;
        for (const double score : row) {
          weights.push_back(static_cast<float>(std::exp(score) / sum));
        }
        window_weights.back().push_back(std::move(weights));
        log_sum_exp_.back().push_back(std::log(sum));
      }
    }
  }

  std::vector<float> stored_keys, stored_values;  // [length, head_dim], the same for all KV heads
  std::vector<std::vector<std::vector<float>>> window_weights;  // [n_heads][window][length]
  std::vector<std::vector<double>> masses;                      // [n_kv_heads][length]
  std::vector<std::vector<double>> norms;                       // [n_heads][length]

  std::span<const std::int32_t> positions(std::int64_t) const override { return positions_; }
  std::int64_t window_rows() override {
    return static_cast<std::int64_t>(at(window_weights, 0).size());
  }
  std::span<const float> window_row(std::int64_t head, std::int64_t row) override {
    return at(at(window_weights, head), row);
  }
  double window_log_sum_exp(std::int64_t head, std::int64_t row) override {
    return at(at(log_sum_exp_, head), row);
  }
  std::span<const double> mass(std::int64_t kv_head) override { return at(masses, kv_head); }
  std::span<const double> output_norms(std::int64_t head) override { return at(norms, head); }
  std::span<const float> keys(std::int64_t) override { return stored_keys; }
  std::span<const float> values(std::int64_t) override { return stored_values; }

  std::span<const double> replayed(std::int64_t) override { absent(); }
  std::span<const double> query_mean(std::int64_t) override { absent(); }
  std::span<const double> query_covariance(std::int64_t) override { absent(); }
  std::span<const double> inv_freq() const override { absent(); }
  double rope_attention_factor() const override { return 1.0; }
  bool rope_interleaved() const override { return false; }

 private:
  [[noreturn]] static void absent() { throw InternalError("not part of this view"); }

  template <class Rows>
  static const typename Rows::value_type& at(const Rows& rows, std::int64_t index) {
    if (index >= std::ssize(rows)) absent();
    return rows[static_cast<std::size_t>(index)];
  }

  std::vector<std::int32_t> positions_;           // [length]
  std::vector<std::vector<double>> log_sum_exp_;  // [n_heads][window]
};

}  // namespace kvbench::test
