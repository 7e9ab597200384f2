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

// The score of an entry that must stay (an observation window, sinks).
constexpr double kAlwaysKept = std::numeric_limits<double>::infinity();

class Scorer {
 public:
  virtual ~Scorer() = default;
  virtual PolicyNeeds needs() const = 0;
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

// Traits from the options capacity, keep, timing, interval, evict and positions. ConfigError
// unless exactly one of capacity and keep is given.
PolicyTraits scored_traits(const PolicyOptions& options, const PolicyNeeds& needs);

// Keeps the `capacity` best entries of each head.
std::unique_ptr<EvictionPolicy> make_scored_policy(const PolicyOptions& options,
                                                   std::unique_ptr<Scorer> scorer);

}  // namespace kvbench
