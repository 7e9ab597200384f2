// QueryMoments: one f32 matrix product per head and step, added up in f64.
#include "engine/query_moments.hpp"

#include "backend/cpu/tile_kernels.hpp"

namespace kvbench {

void QueryMoments::add(const float* queries, std::int64_t stride, std::int64_t n_tokens,
                       std::int64_t n_heads, std::int64_t head_dim) {
  if (n_tokens == 0) return;
  const auto values = static_cast<std::size_t>(n_heads * head_dim);
  const auto d = static_cast<std::size_t>(head_dim);
  if (count_ == 0) {
    n_heads_ = n_heads;
    head_dim_ = head_dim;
    centre_.resize(values);
    for (std::size_t i = 0; i < values; ++i) {
      double sum = 0.0;
      for (std::int64_t t = 0; t < n_tokens; ++t) {
        sum += static_cast<double>(queries[t * stride + static_cast<std::int64_t>(i)]);
      }
      centre_[i] = static_cast<float>(sum / static_cast<double>(n_tokens));
    }
    sum_.assign(values, 0.0);
    product_.assign(values * d, 0.0);
  }
  const std::int64_t width = tile::padded(head_dim);
  rows_.assign(static_cast<std::size_t>(n_tokens * width), 0.0f);
  for (std::int64_t head = 0; head < n_heads; ++head) {
    const float* centre = centre_.data() + head * head_dim;
    for (std::int64_t t = 0; t < n_tokens; ++t) {
      const float* q = queries + t * stride + head * head_dim;
      float* row = rows_.data() + t * width;
      for (std::size_t i = 0; i < d; ++i) row[i] = q[i] - centre[i];
    }
    add_head(head, rows_.data(), n_tokens);
  }
  count_ += n_tokens;
}

void QueryMoments::add_head(std::int64_t head, const float* rows, std::int64_t n_tokens) {
  const std::int64_t width = tile::padded(head_dim_);
  double* sum = sum_.data() + head * head_dim_;
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    for (std::int64_t i = 0; i < head_dim_; ++i) {
      sum[i] += static_cast<double>(rows[t * width + i]);
    }
  }
  block_.resize(static_cast<std::size_t>(head_dim_ * width));
  tile::product({.a = rows,
                 .a_row = 1,
                 .a_inner = width,
                 .b = rows,
                 .c = block_.data(),
                 .n_rows = head_dim_,
                 .n_inner = n_tokens,
                 .n_columns = width,
                 .accumulate = false});
  double* product = product_.data() + head * head_dim_ * head_dim_;
  for (std::int64_t i = 0; i < head_dim_; ++i) {
    for (std::int64_t j = 0; j < head_dim_; ++j) {
      product[i * head_dim_ + j] +=
          static_cast<double>(block_[static_cast<std::size_t>(i * width + j)]);
    }
  }
}

void QueryMoments::finish(std::vector<double>& mean, std::vector<double>& covariance) const {
  const auto n = static_cast<double>(count_);
  const auto d = static_cast<std::size_t>(head_dim_);
  mean.resize(sum_.size());
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    mean[i] = static_cast<double>(centre_[i]) + sum_[i] / n;
  }
  covariance.resize(product_.size());
  for (std::size_t row = 0; row < sum_.size(); ++row) {
    const double* sum = sum_.data() + row / d * d;
    for (std::size_t j = 0; j < d; ++j) {
      covariance[row * d + j] = product_[row * d + j] / n - sum_[row] / n * (sum[j] / n);
    }
  }
}

}  // namespace kvbench
