// observed_attention: keeps the entries that received most attention per query that could see
// them, mean over the group's query heads. Unlike h2o it neither favours old entries nor keeps
// recent ones as such.
#include "policy/registry.hpp"
#include "policy/scorer.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    capacity_option(), keep_option(),  timing_option("prefill"),
    interval_option(), evict_option(), positions_option("original"),
};

class ObservedAttentionScorer final : public Scorer {
 public:
  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.mass = true;
    return needs;
  }

  void score(LayerView& view, std::int64_t kv_head, std::vector<double>& scores) override {
    const auto mass = view.mass(kv_head);
    const auto positions = view.positions(kv_head);
    scores.assign(mass.begin(), mass.end());
    for (std::size_t slot = 0; slot < scores.size(); ++slot) {
      // Every query from the entry's own on saw it.
      const std::int64_t queries = view.tokens_seen - positions[slot];
      scores[slot] /= static_cast<double>(queries * view.group);
    }
  }
};

std::unique_ptr<Scorer> make_scorer(const PolicyOptions&) {
  return std::make_unique<ObservedAttentionScorer>();
}

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  return make_scored_policy(options, make_scorer(options));
}

}  // namespace

PolicyInfo observed_attention_policy() {
  return {"observed_attention",
          "observed_attention:capacity=1024",
          "keeps what received most attention per query that saw it",
          "ObservedAttentionPress of kvpress",
          kOptions,
          make,
          make_scorer};
}

}  // namespace kvbench
