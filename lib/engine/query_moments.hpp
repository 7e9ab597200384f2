// Mean and covariance of one layer's queries, per head, gathered step by step.
#pragma once

#include <cstdint>
#include <vector>

namespace kvbench {

class QueryMoments {
 public:
  // queries (host): [n_tokens, n_heads, head_dim], tokens `stride` floats apart.
  void add(const float* queries, std::int64_t stride, std::int64_t n_tokens, std::int64_t n_heads,
           std::int64_t head_dim);

  std::int64_t count() const { return count_; }  // tokens added
  // mean: [n_heads, head_dim]; covariance: [n_heads, head_dim, head_dim], divided by the count.
  void finish(std::vector<double>& mean, std::vector<double>& covariance) const;

 private:
  void add_head(std::int64_t head, const float* rows, std::int64_t n_tokens);

  std::int64_t n_heads_ = 0;
  std::int64_t head_dim_ = 0;
  std::int64_t count_ = 0;
  // Sums are of distances to a point near the mean, so that a large mean cannot swallow a small
  // covariance in f32.
  std::vector<float> centre_;    // [n_heads, head_dim]
  std::vector<double> sum_;      // [n_heads, head_dim]
  std::vector<double> product_;  // [n_heads, head_dim, head_dim]
  std::vector<float> rows_;      // [n_tokens, padded head_dim], of one head
  std::vector<float> block_;     // [head_dim, padded head_dim]
};

}  // namespace kvbench
