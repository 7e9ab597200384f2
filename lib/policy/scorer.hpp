// Rating the entries of a head. Policies that keep the best-rated entries differ only in their
// scorer; adakv and criticalkv run over any of them.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "policy/eviction_policy.hpp"
#include "policy/policy_options.hpp"

namespace kvbench {

// The score of an entry that must stay (an observation window, sinks). No measured score may equal
// it, or it would take the place of one that must stay: `measured_score` caps them.
constexpr double kAlwaysKept = std::numeric_limits<double>::infinity();
inline double measured_score(double score) {
  return score == kAlwaysKept ? std::numeric_limits<double>::max() : score;
}

class Scorer {
 public:
  virtual ~Scorer() = default;
  virtual PolicyNeeds needs() const = 0;
  // Entries per KV head that it marks as kAlwaysKept; a budget must exceed them.
  virtual std::int64_t always_kept() const { return 0; }
  // Fills `scores` [length of the head]: higher stays; kAlwaysKept for entries that must.
  virtual void score(LayerView& view, std::int64_t kv_head, std::vector<double>& scores) = 0;
};

// Options that every policy over a scorer has beside the scorer's own.
constexpr PolicyOption capacity_option() {
  return {"capacity",
          OptionKind::integer,
          "0",
          0,
          kMaxEntries,
          "",
          "entries kept per KV head (or give keep)"};
}
constexpr PolicyOption keep_option() {
  return {"keep", OptionKind::real, "0", 0, 1, "", "share of the prompt to keep, above 0 to 1"};
}

// floor(share * entries), where 0.29 of 100 is 29 whatever the binary form of 0.29.
std::int64_t share_of(double share, std::int64_t entries);

// Traits from the options timing, interval, evict and positions.
PolicyTraits timing_traits(const PolicyOptions& options, const PolicyNeeds& needs);

// Traits from the options capacity, keep, timing, interval, evict and positions. ConfigError
// unless exactly one of capacity and keep is given, and a capacity exceeds `always_kept`.
PolicyTraits scored_traits(const PolicyOptions& options, const PolicyNeeds& needs,
                           std::int64_t always_kept = 0);
// For policies that act once, after the prompt: from capacity and keep alone.
PolicyTraits after_prompt_traits(const PolicyOptions& options, const Scorer& scorer,
                                 EvictScope scope);

// For budgets that are known only with the prompt: ConfigError unless one exceeds `always_kept`.
void require_room(const PolicyTraits& traits, std::int64_t budget, std::int64_t always_kept);

// Keeps the `capacity` best entries of each head.
std::unique_ptr<EvictionPolicy> make_scored_policy(const PolicyOptions& options,
                                                   std::unique_ptr<Scorer> scorer);
// The same with given traits. Under EvictScope::model the best `capacity` per head on average of
// all layers' entries stay: score descending, then lower position, layer and head.
std::unique_ptr<EvictionPolicy> make_scored_policy(const PolicyTraits& traits,
                                                   std::unique_ptr<Scorer> scorer);

}  // namespace kvbench
