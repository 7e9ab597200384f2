// Definitions of attention_profile.hpp.
#include "metric/attention_profile.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace kvbench {
namespace {

double sum_of(std::span<const float> values) {
  double sum = 0.0;
  for (const float value : values) sum += static_cast<double>(value);
  return sum;
}

// Of the weights divided by their sum: ln(sum) - (1 / sum) * sum of w ln w.
double entropy_of(std::span<const float> weights, double total) {
  double sum = 0.0;
  for (const float weight : weights) {
    if (weight > 0.0f) sum += static_cast<double>(weight * std::log(weight));
  }
  return std::log(total) - sum / total;
}

}  // namespace

void AttentionShares::add(const AttentionShares& other) {
  first_one += other.first_one;
  first += other.first;
  recent += other.recent;
  rest += other.rest;
  entropy += other.entropy;
  rows += other.rows;
}

AttentionShares AttentionShares::mean() const {
  const auto n = static_cast<double>(std::max<std::int64_t>(rows, 1));
  return {first_one / n, first / n, recent / n, rest / n, entropy / n, 1};
}

AttentionProfile::AttentionProfile(std::int64_t n_layers, std::int64_t n_heads,
                                   const ProfileOptions& options)
    : n_layers_(n_layers),
      n_heads_(n_heads),
      options_(options),
      heads_(static_cast<std::size_t>(n_layers * n_heads)),
      map_(static_cast<std::size_t>(n_layers * options.map)) {}

void AttentionProfile::add(std::int64_t layer, std::int64_t head, std::span<const float> weights) {
  const double total = sum_of(weights);
  KVB_CHECK(total > 0.0, "layer {}, head {}: attention that sums to {}", layer, head, total);
  add_to_map(layer, weights, total);
  const std::int64_t position = std::ssize(weights) - 1;
  if (position <= options_.after) return;
  const auto first = static_cast<std::size_t>(std::min(options_.first, position + 1));
  const auto recent = std::max(
      first, static_cast<std::size_t>(std::max<std::int64_t>(0, position + 1 - options_.recent)));
  AttentionShares shares;
  shares.rows = 1;
  shares.first_one = static_cast<double>(weights.front()) / total;
  shares.first = sum_of(weights.first(first)) / total;
  shares.rest = sum_of(weights.subspan(first, recent - first)) / total;
  shares.recent = sum_of(weights.subspan(recent)) / total;
  shares.entropy = entropy_of(weights, total);
  heads_[static_cast<std::size_t>(layer * n_heads_ + head)].add(shares);
  const auto query = static_cast<std::size_t>(position - options_.after - 1);
  if (query >= queries_.size()) queries_.resize(query + 1);
  queries_[query].add(shares);
}

void AttentionProfile::add_to_map(std::int64_t layer, std::span<const float> weights,
                                  double total) {
  const std::int64_t query = std::ssize(weights) - 1;
  if (query >= options_.map) return;
  auto& row = map_[static_cast<std::size_t>(layer * options_.map + query)];
  row.resize(weights.size(), 0.0);
  const double share = 1.0 / (total * static_cast<double>(n_heads_));
  for (std::size_t i = 0; i < row.size(); ++i) row[i] += static_cast<double>(weights[i]) * share;
}

const AttentionShares& AttentionProfile::head(std::int64_t layer, std::int64_t head) const {
  return heads_[static_cast<std::size_t>(layer * n_heads_ + head)];
}

AttentionShares AttentionProfile::layer(std::int64_t layer) const {
  AttentionShares sum;
  for (std::int64_t head = 0; head < n_heads_; ++head) sum.add(this->head(layer, head));
  return sum;
}

AttentionShares AttentionProfile::all() const {
  AttentionShares sum;
  for (const AttentionShares& head : heads_) sum.add(head);
  return sum;
}

std::span<const double> AttentionProfile::map_row(std::int64_t layer, std::int64_t query) const {
  return map_[static_cast<std::size_t>(layer * options_.map + query)];
}

}  // namespace kvbench
