// The policy around a scorer: the best entries of each head by score.
#include "policy/scorer.hpp"

#include "core/error.hpp"
#include "policy/top_entries.hpp"

namespace kvbench {
namespace {

class ScoredPolicy final : public EvictionPolicy {
 public:
  ScoredPolicy(const PolicyTraits& traits, std::unique_ptr<Scorer> scorer)
      : traits_(traits), scorer_(std::move(scorer)) {}
  const PolicyTraits& traits() const override { return traits_; }

  void select(LayerView& view, KeepList& keep) override {
    require_room(traits_, view.capacity, scorer_->always_kept());
    for (std::int64_t kv_head = 0; kv_head < view.n_kv_heads; ++kv_head) {
      scorer_->score(view, kv_head, scores_);
      keep.ties_at_cut += keep_best(scores_, view.capacity, 0, view.layer, kv_head,
                                    keep[static_cast<std::size_t>(kv_head)]);
    }
  }

  void select_model(ModelView& view, std::vector<KeepList>& keep) override {
    std::vector<ScoredEntry> entries;
    std::int64_t count = 0;
    for (std::int64_t layer = 0; layer < view.n_layers; ++layer) {
      LayerView& shown = view.layer(layer);
      require_room(traits_, shown.capacity, scorer_->always_kept());
      count += shown.capacity * shown.n_kv_heads;
      for (std::int64_t kv_head = 0; kv_head < shown.n_kv_heads; ++kv_head) {
        scorer_->score(shown, kv_head, scores_);
        const auto positions = shown.positions(kv_head);
        for (std::size_t slot = 0; slot < scores_.size(); ++slot) {
          entries.push_back({scores_[slot], positions[slot], static_cast<std::int32_t>(layer),
                             static_cast<std::int32_t>(kv_head), static_cast<std::int32_t>(slot)});
        }
      }
    }
    keep.front().ties_at_cut += keep_best_of_model(entries, count, keep);
  }

 private:
  PolicyTraits traits_;
  std::unique_ptr<Scorer> scorer_;
  std::vector<double> scores_;  // [length] of one head
};

// The keys capacity and keep. ConfigError unless exactly one of them is given, and a capacity
// exceeds `always_kept`.
void set_budget(const PolicyOptions& options, std::int64_t always_kept, PolicyTraits& traits) {
  const std::int64_t capacity = options.integer("capacity");
  const double share = options.real("keep");
  if ((capacity > 0) == (share > 0)) {
    config_error(
        "policy '{}': give exactly one of capacity (entries) and keep (share of the prompt), above "
        "0; policy full is the one without a limit",
        options.policy_text());
  }
  if (capacity > 0) traits.capacity = capacity;
  if (share > 0) traits.keep_share = share;
  // Under evict=before one entry less is kept: the next token takes its place.
  const std::int64_t kept = capacity - (traits.evict == EvictWhen::before ? 1 : 0);
  if (capacity > 0 && always_kept > 0 && kept <= always_kept) {
    config_error(
        "policy '{}': key capacity: expected more than the {} entries that always stay{}, found {}",
        options.policy_text(), always_kept, kept < capacity ? " and the next token's place" : "",
        capacity);
  }
}

}  // namespace

std::int64_t share_of(double share, std::int64_t entries) {
  constexpr double kRounding = 1e-9;
  return static_cast<std::int64_t>(share * static_cast<double>(entries) + kRounding);
}

PolicyTraits timing_traits(const PolicyOptions& options, const PolicyNeeds& needs) {
  PolicyTraits traits;
  traits.timing = options.timing();
  traits.interval = options.integer("interval");
  traits.evict = options.evict();
  traits.positions = options.positions();
  traits.needs = needs;
  return traits;
}

PolicyTraits scored_traits(const PolicyOptions& options, const PolicyNeeds& needs,
                           std::int64_t always_kept) {
  PolicyTraits traits = timing_traits(options, needs);
  set_budget(options, always_kept, traits);
  return traits;
}

PolicyTraits after_prompt_traits(const PolicyOptions& options, const Scorer& scorer,
                                 EvictScope scope) {
  PolicyTraits traits;
  traits.timing = EvictTiming::prefill;
  traits.scope = scope;
  traits.needs = scorer.needs();
  set_budget(options, scorer.always_kept(), traits);
  return traits;
}

void require_room(const PolicyTraits& traits, std::int64_t budget, std::int64_t always_kept) {
  if (always_kept == 0 || budget > always_kept) return;
  const std::string share =
      traits.keep_share ? fmt::format("keep={} of this prompt", *traits.keep_share) : "the budget";
  config_error("{} is {} entries, expected more than the {} that always stay", share, budget,
               always_kept);
}

std::unique_ptr<EvictionPolicy> make_scored_policy(const PolicyOptions& options,
                                                   std::unique_ptr<Scorer> scorer) {
  const PolicyTraits traits = scored_traits(options, scorer->needs(), scorer->always_kept());
  return make_scored_policy(traits, std::move(scorer));
}

std::unique_ptr<EvictionPolicy> make_scored_policy(const PolicyTraits& traits,
                                                   std::unique_ptr<Scorer> scorer) {
  return std::make_unique<ScoredPolicy>(traits, std::move(scorer));
}

}  // namespace kvbench
