// adakv: over any scorer, the KV heads of a layer share n_kv_heads * capacity entries: the best of
// all heads stay, but each head keeps its own floor(alpha * capacity) best at least.
#include <cmath>

#include "policy/head_budgets.hpp"
#include "policy/registry.hpp"
#include "policy/scorer.hpp"
#include "policy/top_entries.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    scorer_option(),
    {"alpha", OptionKind::real, "0.2", 0, 1, "",
     "share of the budget that each head keeps whatever the others' scores"},
    capacity_option(),
    keep_option(),
    timing_option("prefill"),
    interval_option(),
    evict_option(),
    original_positions_option(),
};

class AdakvPolicy final : public EvictionPolicy {
 public:
  AdakvPolicy(const PolicyOptions& options, std::unique_ptr<Scorer> scorer)
      : traits_(scored_traits(options, scorer->needs(), scorer->always_kept())),
        scorer_(std::move(scorer)),
        alpha_(options.real("alpha")) {}
  const PolicyTraits& traits() const override { return traits_; }

  void select(LayerView& view, KeepList& keep) override {
    require_room(traits_, view.capacity, scorer_->always_kept());
    scores_.resize(keep.size());
    for (std::size_t kv_head = 0; kv_head < keep.size(); ++kv_head) {
      scorer_->score(view, static_cast<std::int64_t>(kv_head), scores_[kv_head]);
    }
    const HeadBudgets budgets = share_budget(scores_, view.n_kv_heads * view.capacity,
                                             share_of(alpha_, view.capacity), view.layer);
    keep.ties_at_cut += budgets.ties_at_cut;
    for (std::size_t kv_head = 0; kv_head < keep.size(); ++kv_head) {
      keep_best(scores_[kv_head], budgets.entries[kv_head], 0, view.layer,
                static_cast<std::int64_t>(kv_head), keep[kv_head]);
    }
  }

 private:
  PolicyTraits traits_;
  std::unique_ptr<Scorer> scorer_;
  double alpha_;
  std::vector<std::vector<double>> scores_;  // [n_kv_heads][length]
};

std::unique_ptr<EvictionPolicy> make_over(const PolicyOptions& options,
                                          std::unique_ptr<Scorer> scorer) {
  return std::make_unique<AdakvPolicy>(options, std::move(scorer));
}

}  // namespace

PolicyInfo adakv_policy() {
  return {"adakv",
          "adakv:scorer=snapkv,capacity=1024,window=32",
          "divides a layer's budget over its heads by score",
          "Ada-KV (arXiv:2407.11550), algorithm 1",
          kOptions,
          nullptr,
          nullptr,
          make_over};
}

}  // namespace kvbench
