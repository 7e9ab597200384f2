// The router's choice on the host; gathering, products and adding on the backend.
#include "model/experts.hpp"

#include <algorithm>
#include <cmath>

namespace kvbench {

std::vector<PickedExpert> pick_experts(std::span<const float> logits, std::int64_t n_active) {
  std::vector<PickedExpert> order;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    order.push_back({static_cast<std::int32_t>(i), logits[i]});
  }
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.weight > b.weight; });
  order.resize(static_cast<std::size_t>(n_active));
  // The softmax's denominator over all experts cancels when the picked weights are scaled to 1.
  const float maximum = order.front().weight;
  float sum = 0.0f;
  for (PickedExpert& picked : order) {
    picked.weight = std::exp(picked.weight - maximum);
    sum += picked.weight;
  }
  for (PickedExpert& picked : order) picked.weight /= sum;
  return order;
}

Experts::Experts(const Model& model, Backend& backend, std::int64_t max_tokens, Mlp& mlp,
                 ResidualStream& stream)
    : model_(model),
      config_(model.config()),
      backend_(backend),
      mlp_(mlp),
      stream_(stream),
      host_logits_(static_cast<std::size_t>(max_tokens * config_.n_experts)),
      assignments_(static_cast<std::size_t>(config_.n_experts)) {
  const auto n = static_cast<std::size_t>(max_tokens * config_.hidden_size);
  logits_ = backend.allocate(host_logits_.size() * sizeof(float));
  gathered_ = backend.allocate(n * dtype_size(model.compute()));
  output_ = backend.allocate(n * sizeof(float));
}

void Experts::route(const LinearWeight& router, std::int64_t n_tokens) {
  const auto n_experts = static_cast<std::size_t>(config_.n_experts);
  backend_.linear(
      router,
      {.x = stream_.normed(), .y = logits_.as<float>(), .n_rows = n_tokens, .accumulate = false});
  const std::size_t n = static_cast<std::size_t>(n_tokens) * n_experts;
  backend_.copy_out(host_logits_.data(), logits_.as<void>(), n * sizeof(float));
  for (Assignment& assignment : assignments_) {
    assignment.rows.clear();
    assignment.weights.clear();
  }
  for (std::int64_t token = 0; token < n_tokens; ++token) {
    const std::span<const float> logits(
        host_logits_.data() + static_cast<std::size_t>(token) * n_experts, n_experts);
    for (const PickedExpert& picked : pick_experts(logits, config_.n_active_experts)) {
      Assignment& assignment = assignments_[static_cast<std::size_t>(picked.expert)];
      assignment.rows.push_back(static_cast<std::int32_t>(token));
      assignment.weights.push_back(picked.weight);
    }
  }
}

void Experts::add_outputs(const LayerWeights& weights, std::int64_t n_tokens) {
  route(*weights.router, n_tokens);
  for (std::size_t i = 0; i < assignments_.size(); ++i) {
    const Assignment& assignment = assignments_[i];
    const auto n = static_cast<std::int64_t>(assignment.rows.size());
    if (n == 0) continue;
    const MlpWeights& expert = weights.experts[i];
    backend_.gather_rows({.x = stream_.normed(),
                          .out = gathered_.as<void>(),
                          .rows = assignment.rows.data(),
                          .n_rows = n,
                          .row_bytes = static_cast<std::size_t>(config_.hidden_size) *
                                       dtype_size(model_.compute())});
    const void* inner = mlp_.inner(expert, gathered_.as<void>(), n);
    backend_.linear(*expert.down,
                    {.x = inner, .y = output_.as<float>(), .n_rows = n, .accumulate = false});
    stream_.add_rows(output_.as<float>(), assignment.rows, assignment.weights);
  }
}

}  // namespace kvbench
