// criticalkv: over any scorer, the first part of the budget goes to the best scores, the rest to
// the best products of score and output norm ||W_o v||_1 (mean over the group's query heads): an
// entry matters when it is attended to and moves the hidden state.
// criticaladakv: the same within heads whose budgets adakv has set.
#include <algorithm>

#include "policy/head_budgets.hpp"
#include "policy/registry.hpp"
#include "policy/scorer.hpp"
#include "policy/top_entries.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kFirst = {
    "first", OptionKind::real, "0.5", 0, 1, "", "share of the budget that goes by score alone"};
constexpr PolicyOption kEpsilon = {"epsilon",
                                   OptionKind::real,
                                   "0.0001",
                                   0,
                                   1e6,
                                   "",
                                   "added to scores before they meet the output norm"};

constexpr PolicyOption kOptions[] = {
    scorer_option(),   kFirst,         kEpsilon,
    capacity_option(), keep_option(),  timing_option("prefill"),
    interval_option(), evict_option(), positions_option("original"),
};

constexpr PolicyOption kAdaOptions[] = {
    scorer_option(),
    {"alpha", OptionKind::real, "0.2", 0, 1, "",
     "share of the budget that each head keeps whatever the others' scores"},
    kFirst,
    kEpsilon,
    capacity_option(),
    keep_option(),
    timing_option("prefill"),
    interval_option(),
    evict_option(),
    original_positions_option(),
};

// The two stages within one head.
class TwoStages {
 public:
  explicit TwoStages(const PolicyOptions& options)
      : first_(options.real("first")), epsilon_(options.real("epsilon")) {}

  // Returns the ties at the cut. scores: [length], changed.
  std::int64_t keep(LayerView& view, std::int64_t kv_head, std::int64_t budget,
                    std::vector<double>& scores, std::vector<std::int32_t>& kept) {
    best_.clear();
    keep_best(scores, share_of(first_, budget), 0, view.layer, kv_head, best_);
    weigh(view, kv_head, scores);
    for (const std::int32_t slot : best_) scores[static_cast<std::size_t>(slot)] = kAlwaysKept;
    return keep_best(scores, budget, 0, view.layer, kv_head, kept);
  }

 private:
  void weigh(LayerView& view, std::int64_t kv_head, std::vector<double>& scores) {
    norms_.assign(scores.size(), 0.0);
    for (std::int64_t head = 0; head < view.group; ++head) {
      const auto norms = view.output_norms(kv_head * view.group + head);
      for (std::size_t slot = 0; slot < norms_.size(); ++slot) norms_[slot] += norms[slot];
    }
    for (std::size_t slot = 0; slot < scores.size(); ++slot) {
      if (scores[slot] == kAlwaysKept) continue;
      const double norm = norms_[slot] / static_cast<double>(view.group);
      scores[slot] = measured_score((scores[slot] + epsilon_) * norm);
    }
  }

  double first_;
  double epsilon_;
  std::vector<std::int32_t> best_;
  std::vector<double> norms_;  // [length], mean over the group
};

// alpha: of criticaladakv; without it all heads have the same budget.
class CriticalPolicy final : public EvictionPolicy {
 public:
  CriticalPolicy(const PolicyOptions& options, std::unique_ptr<Scorer> scorer,
                 std::optional<double> alpha)
      : traits_(scored_traits(options, scorer->needs(), scorer->always_kept())),
        scorer_(std::move(scorer)),
        stages_(options),
        alpha_(alpha) {
    traits_.needs.output_norms = true;
  }
  const PolicyTraits& traits() const override { return traits_; }

  void select(LayerView& view, KeepList& keep) override {
    require_room(traits_, view.capacity, scorer_->always_kept());
    scores_.resize(keep.size());
    for (std::size_t kv_head = 0; kv_head < keep.size(); ++kv_head) {
      scorer_->score(view, static_cast<std::int64_t>(kv_head), scores_[kv_head]);
    }
    std::vector<std::int64_t> budgets(keep.size(), view.capacity);
    if (alpha_) {
      budgets = share_budget(scores_, view.n_kv_heads * view.capacity,
                             share_of(*alpha_, view.capacity), view.layer)
                    .entries;
    }
    for (std::size_t kv_head = 0; kv_head < keep.size(); ++kv_head) {
      keep.ties_at_cut += stages_.keep(view, static_cast<std::int64_t>(kv_head), budgets[kv_head],
                                       scores_[kv_head], keep[kv_head]);
    }
  }

 private:
  PolicyTraits traits_;
  std::unique_ptr<Scorer> scorer_;
  TwoStages stages_;
  std::optional<double> alpha_;
  std::vector<std::vector<double>> scores_;  // [n_kv_heads][length]
};

std::unique_ptr<EvictionPolicy> make_over(const PolicyOptions& options,
                                          std::unique_ptr<Scorer> scorer) {
  return std::make_unique<CriticalPolicy>(options, std::move(scorer), std::nullopt);
}

std::unique_ptr<EvictionPolicy> make_ada_over(const PolicyOptions& options,
                                              std::unique_ptr<Scorer> scorer) {
  return std::make_unique<CriticalPolicy>(options, std::move(scorer), options.real("alpha"));
}

}  // namespace

PolicyInfo criticalkv_policy() {
  return {"criticalkv",
          "criticalkv:scorer=snapkv,capacity=1024,window=32",
          "half by score, half by score times what the entry's value does to the hidden state",
          "CriticalKV (arXiv:2502.03805), algorithm 1",
          kOptions,
          nullptr,
          nullptr,
          make_over};
}

PolicyInfo criticaladakv_policy() {
  return {"criticaladakv",
          "criticaladakv:scorer=snapkv,capacity=1024,window=32",
          "criticalkv within the head budgets of adakv",
          "CriticalKV (arXiv:2502.03805), algorithm 1 within Ada-KV's budgets",
          kAdaOptions,
          nullptr,
          nullptr,
          make_ada_over};
}

}  // namespace kvbench
