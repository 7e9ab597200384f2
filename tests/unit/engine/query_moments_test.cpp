// Mean and covariance of queries: against plain sums, for any step size, and where the mean is far
// larger than the spread.
#include "engine/query_moments.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace kvbench {
namespace {

struct Moments {
  std::vector<double> mean;        // [n_heads, head_dim]
  std::vector<double> covariance;  // [n_heads, head_dim, head_dim]
};

struct Queries {
  std::int64_t n_tokens;
  std::int64_t n_heads;
  std::int64_t head_dim;
  std::int64_t stride;
  std::vector<float> values;  // [n_tokens, stride]

  double at(std::int64_t t, std::int64_t head, std::int64_t i) const {
    return static_cast<double>(values[static_cast<std::size_t>(t * stride + head * head_dim + i)]);
  }
};

Queries random_queries(std::int64_t n_tokens, std::int64_t n_heads, std::int64_t head_dim,
                       float mean) {
  Queries q{n_tokens, n_heads, head_dim, n_heads * head_dim + 5, {}};
  std::mt19937 random(7);
  std::normal_distribution<float> normal(mean, 1.0f);
  q.values.resize(static_cast<std::size_t>(n_tokens * q.stride));
  for (float& x : q.values) x = normal(random);
  return q;
}

Moments by_plain_sums(const Queries& q) {
  Moments m;
  const auto n = static_cast<double>(q.n_tokens);
  for (std::int64_t head = 0; head < q.n_heads; ++head) {
    for (std::int64_t i = 0; i < q.head_dim; ++i) {
      double sum = 0.0;
      for (std::int64_t t = 0; t < q.n_tokens; ++t) sum += q.at(t, head, i);
      m.mean.push_back(sum / n);
    }
    const double* mean = m.mean.data() + head * q.head_dim;
    for (std::int64_t i = 0; i < q.head_dim; ++i) {
      for (std::int64_t j = 0; j < q.head_dim; ++j) {
        double sum = 0.0;
        for (std::int64_t t = 0; t < q.n_tokens; ++t) {
          sum += (q.at(t, head, i) - mean[i]) * (q.at(t, head, j) - mean[j]);
        }
        m.covariance.push_back(sum / n);
      }
    }
  }
  return m;
}

Moments in_steps(const Queries& q, std::int64_t step) {
  QueryMoments moments;
  for (std::int64_t t = 0; t < q.n_tokens; t += step) {
    moments.add(q.values.data() + t * q.stride, q.stride, std::min(step, q.n_tokens - t), q.n_heads,
                q.head_dim);
  }
  CHECK(moments.count() == q.n_tokens);
  Moments result;
  moments.finish(result.mean, result.covariance);
  return result;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST_CASE("against plain sums") {
  for (const std::int64_t head_dim : {8, 16, 20, 64}) {
    for (const float mean : {0.0f, 300.0f}) {
      CAPTURE(head_dim);
      CAPTURE(mean);
      const Queries q = random_queries(97, 3, head_dim, mean);
      const Moments right = by_plain_sums(q);
      for (const std::int64_t step : {1, 10, 97}) {
        CAPTURE(step);
        const Moments found = in_steps(q, step);
        CHECK(largest_difference(found.mean, right.mean) < 1e-5);
        CHECK(largest_difference(found.covariance, right.covariance) < 1e-4);
      }
    }
  }
}

TEST_CASE("a single query has no spread") {
  const Moments found = in_steps(random_queries(1, 2, 8, 1.0f), 1);
  for (const double x : found.covariance) CHECK(x == 0.0);
}

}  // namespace
}  // namespace kvbench
