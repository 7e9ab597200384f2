// knorm: keeps the keys of smallest norm, which tend to attract most attention.
#include <cmath>

#include "policy/registry.hpp"
#include "policy/scorer.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    capacity_option(), keep_option(),  timing_option("prefill"),
    interval_option(), evict_option(), positions_option("original"),
};

class KnormScorer final : public Scorer {
 public:
  PolicyNeeds needs() const override { return {}; }

  void score(LayerView& view, std::int64_t kv_head, std::vector<double>& scores) override {
    const auto keys = view.keys(kv_head);
    scores.resize(static_cast<std::size_t>(view.length(kv_head)));
    const auto d = static_cast<std::size_t>(view.head_dim);
    for (std::size_t slot = 0; slot < scores.size(); ++slot) {
      double squares = 0.0;
      for (const float x : keys.subspan(slot * d, d)) squares += static_cast<double>(x) * x;
      scores[slot] = -std::sqrt(squares);
    }
  }
};

std::unique_ptr<Scorer> make_scorer(const PolicyOptions&) {
  return std::make_unique<KnormScorer>();
}

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  return make_scored_policy(options, make_scorer(options));
}

}  // namespace

PolicyInfo knorm_policy() {
  return {"knorm",
          "knorm:capacity=1024",
          "keeps the keys of smallest norm",
          "L2 norm (arXiv:2406.11430), section 3",
          kOptions,
          make,
          make_scorer};
}

}  // namespace kvbench
