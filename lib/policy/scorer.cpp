// The policy around a scorer: the best entries of each head by score.
#include "policy/scorer.hpp"

#include "core/error.hpp"
#include "policy/top_entries.hpp"

namespace kvbench {
namespace {

class ScoredPolicy final : public EvictionPolicy {
 public:
  ScoredPolicy(const PolicyOptions& options, std::unique_ptr<Scorer> scorer)
      : traits_(scored_traits(options, scorer->needs())), scorer_(std::move(scorer)) {}
  const PolicyTraits& traits() const override { return traits_; }

  void select(LayerView& view, KeepList& keep) override {
    for (std::int64_t kv_head = 0; kv_head < view.n_kv_heads; ++kv_head) {
      scorer_->score(view, kv_head, scores_);
      keep_best(scores_, view.capacity, 0, view.layer, kv_head,
                keep[static_cast<std::size_t>(kv_head)]);
    }
  }

 private:
  PolicyTraits traits_;
  std::unique_ptr<Scorer> scorer_;
  std::vector<double> scores_;  // [length] of one head
};

}  // namespace

PolicyTraits scored_traits(const PolicyOptions& options, const PolicyNeeds& needs) {
  PolicyTraits traits;
  const std::int64_t capacity = options.integer("capacity");
  const double share = options.real("keep");
  if ((capacity > 0) == (share > 0)) {
    config_error(
        "policy '{}': give exactly one of capacity (entries) and keep (share of the prompt)",
        options.policy_text());
  }
  if (capacity > 0) traits.capacity = capacity;
  if (share > 0) traits.keep_share = share;
  traits.timing = options.timing();
  traits.interval = options.integer("interval");
  traits.evict = options.evict();
  traits.positions = options.positions();
  traits.needs = needs;
  return traits;
}

std::unique_ptr<EvictionPolicy> make_scored_policy(const PolicyOptions& options,
                                                   std::unique_ptr<Scorer> scorer) {
  return std::make_unique<ScoredPolicy>(options, std::move(scorer));
}

}  // namespace kvbench
