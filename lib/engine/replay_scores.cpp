// ReplayScores: attention weights of the second pass, step by step; largest or summed per entry.
#include "engine/replay_scores.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace kvbench {
namespace {

// In four lanes, so that the additions need not wait for each other.
double sum_of(const float* x, std::int64_t n) {
  double lanes[4] = {0.0, 0.0, 0.0, 0.0};
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::int64_t lane = 0; lane < 4; ++lane) lanes[lane] += static_cast<double>(x[i + lane]);
  }
  for (; i < n; ++i) lanes[0] += static_cast<double>(x[i]);
  return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
}

}  // namespace

ReplayScores::ReplayScores(Backend& backend, const ModelConfig& config, const ReplayNeeds& needs)
    : backend_(backend),
      n_heads_(config.n_heads),
      n_kv_heads_(config.n_kv_heads),
      group_(config.group_size()),
      needs_(needs),
      scores_(static_cast<std::size_t>(config.n_layers * config.n_kv_heads)) {}

void ReplayScores::begin(std::int64_t prompt_tokens) {
  prompt_tokens_ = prompt_tokens;
  for (auto& scores : scores_) scores.assign(static_cast<std::size_t>(prompt_tokens), 0.0);
}

void ReplayScores::begin_chunk(std::int64_t first, std::int64_t end) {
  chunk_first_ = first;
  chunk_end_ = end;
}

std::int64_t ReplayScores::tokens_per_step() const {
  if (needs_.tokens == ReplayNeeds::Tokens::continuation) return kUnlimited;
  constexpr std::int64_t kMostWeights = INT64_C(1) << 24;
  const std::int64_t row = n_heads_ * (prompt_tokens_ + 2 * (chunk_end_ - chunk_first_));
  return std::clamp<std::int64_t>(kMostWeights / row, 8, 256);
}

void ReplayScores::collect(const LayerState& state) {
  if (needs_.tokens == ReplayNeeds::Tokens::prompt) {
    collect_largest(state);
  } else {
    collect_sums(state);
  }
}

void ReplayScores::read_weights(const LayerState& state, bool sum_tokens) {
  row_stride_ = 0;
  for (const KvHeadView& kv : state.attention.kv) row_stride_ = std::max(row_stride_, kv.length);
  const std::int64_t rows = n_heads_ * (sum_tokens ? 1 : state.attention.n_tokens);
  const auto bytes = static_cast<std::size_t>(rows * row_stride_) * sizeof(float);
  if (weights_.bytes() < bytes) weights_ = backend_.allocate(bytes + bytes / 4);
  backend_.attention_weights({.attention = state.attention,
                              .log_sum_exp = state.attention.log_sum_exp,
                              .weights = weights_.as<float>(),
                              .row_stride = row_stride_,
                              .sum_tokens = sum_tokens});
  host_weights_.resize(static_cast<std::size_t>(rows * row_stride_));
  backend_.copy_out(host_weights_.data(), weights_.as<void>(), bytes);
}

// What the 1 in the denominators of a softmax off by one has of each row, beside the entries'
// weights: [n_tokens, n_heads]; zeros for a softmax without it.
void ReplayScores::read_rest(const LayerState& state) {
  rest_.assign(static_cast<std::size_t>(state.attention.n_tokens * n_heads_), 0.0f);
  if (!state.attention.off_by_one) return;
  backend_.copy_out(rest_.data(), state.attention.log_sum_exp, rest_.size() * sizeof(float));
  for (float& rest : rest_) rest = std::exp(-rest);
}

// The softmax over everything becomes one over sinks, chunk and replayed tokens by dividing by
// their share of it.
void ReplayScores::collect_largest(const LayerState& state) {
  read_weights(state, false);
  read_rest(state);
  const std::int64_t n_tokens = state.attention.n_tokens;
  const std::int64_t sinks = std::min(needs_.sinks, chunk_first_);
  for (std::int64_t row = 0; row < n_heads_ * n_tokens; ++row) {
    const std::int64_t head = row / n_tokens;
    const std::int64_t kv_head = head / group_;
    const float rest = rest_[static_cast<std::size_t>(row % n_tokens * n_heads_ + head)];
    const std::int64_t length = state.attention.kv[static_cast<std::size_t>(kv_head)].length;
    const float* weights = host_weights_.data() + row * row_stride_;
    const double share =
        sum_of(weights, sinks) + sum_of(weights + chunk_first_, chunk_end_ - chunk_first_) +
        sum_of(weights + prompt_tokens_, length - prompt_tokens_) + static_cast<double>(rest);
    if (share == 0.0) continue;
    const double factor = 1.0 / share;
    double* scores = scores_[static_cast<std::size_t>(state.layer * n_kv_heads_ + kv_head)].data();
    for (std::int64_t slot = chunk_first_; slot < chunk_end_; ++slot) {
      scores[slot] = std::max(scores[slot], static_cast<double>(weights[slot]) * factor);
    }
  }
}

void ReplayScores::collect_sums(const LayerState& state) {
  read_weights(state, true);
  for (std::int64_t head = 0; head < n_heads_; ++head) {
    auto& scores = scores_[static_cast<std::size_t>(state.layer * n_kv_heads_ + head / group_)];
    const float* weights = host_weights_.data() + head * row_stride_;
    for (std::size_t slot = 0; slot < scores.size(); ++slot) {
      scores[slot] += static_cast<double>(weights[slot]);
    }
  }
}

std::span<const double> ReplayScores::scores(std::int64_t layer, std::int64_t kv_head) const {
  KVB_CHECK(needs_.tokens != ReplayNeeds::Tokens::none, "the policy did not ask for a second pass");
  return scores_[static_cast<std::size_t>(layer * n_kv_heads_ + kv_head)];
}

}  // namespace kvbench
