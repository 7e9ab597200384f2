// A layer whose attention, mass and lengths are written in the test.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "core/error.hpp"
#include "policy/layer_view.hpp"

namespace kvbench::test {

class FakeView final : public LayerView {
 public:
  // rows: [n_heads][window][length]; every KV head holds positions 0 .. length-1.
  FakeView(std::vector<std::vector<std::vector<float>>> rows, std::int64_t kv_heads)
      : rows_(std::move(rows)) {
    n_layers = 1;
    n_heads = static_cast<std::int64_t>(rows_.size());
    n_kv_heads = kv_heads;
    group = n_heads / kv_heads;
    positions_.resize(rows_.front().front().size());
    std::iota(positions_.begin(), positions_.end(), 0);
    tokens_seen = static_cast<std::int64_t>(positions_.size());
  }

  std::vector<std::vector<double>> masses;  // [n_kv_heads][length]
  std::vector<std::vector<double>> norms;   // [n_heads][length]

  std::span<const std::int32_t> positions(std::int64_t) const override { return positions_; }
  std::int64_t window_rows() override { return static_cast<std::int64_t>(rows_.front().size()); }
  std::span<const float> window_row(std::int64_t head, std::int64_t row) override {
    return rows_[static_cast<std::size_t>(head)][static_cast<std::size_t>(row)];
  }
  std::span<const double> mass(std::int64_t kv_head) override {
    return masses[static_cast<std::size_t>(kv_head)];
  }
  std::span<const double> output_norms(std::int64_t head) override {
    return norms[static_cast<std::size_t>(head)];
  }
  double window_log_sum_exp(std::int64_t, std::int64_t) override { absent(); }
  std::span<const double> replayed(std::int64_t) override { absent(); }
  std::span<const double> query_mean(std::int64_t) override { absent(); }
  std::span<const double> query_covariance(std::int64_t) override { absent(); }
  std::span<const float> keys(std::int64_t) override { absent(); }
  std::span<const float> values(std::int64_t) override { absent(); }
  std::span<const double> inv_freq() const override { absent(); }
  double rope_attention_factor() const override { return 1.0; }
  bool rope_interleaved() const override { return false; }

 private:
  [[noreturn]] static void absent() { throw InternalError("not part of this view"); }

  std::vector<std::vector<std::vector<float>>> rows_;
  std::vector<std::int32_t> positions_;
};

}  // namespace kvbench::test
