// A policy that only looks: it hands the attention of the last queries, softmax and all, to a test.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/eviction_policy.hpp"

namespace kvbench::test {

class WindowProbe final : public EvictionPolicy {
 public:
  // Sees the last `window` queries of a prompt.
  explicit WindowProbe(std::int64_t window) {
    traits_.capacity = 1;
    traits_.timing = EvictTiming::prefill;
    traits_.needs.window = window;
  }
  const PolicyTraits& traits() const override { return traits_; }

  void select(LayerView& view, KeepList& keep) override {
    weights.resize(static_cast<std::size_t>(view.n_layers));
    auto& layer = weights[static_cast<std::size_t>(view.layer)];
    for (std::int64_t head = 0; head < view.n_heads; ++head) {
      layer.emplace_back();
      for (std::int64_t row = 0; row < view.window_rows(); ++row) {
        const auto seen = view.window_row(head, row);
        layer.back().emplace_back(seen.begin(), seen.end());
      }
    }
    for (std::size_t kv_head = 0; kv_head < keep.size(); ++kv_head) keep[kv_head] = {0};
  }

  // [layer][query head][row of the window][entry]
  std::vector<std::vector<std::vector<std::vector<double>>>> weights;

 private:
  PolicyTraits traits_;
};

}  // namespace kvbench::test
