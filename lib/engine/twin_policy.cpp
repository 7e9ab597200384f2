// Definitions of twin_policy.hpp.
#include "engine/twin_policy.hpp"

#include <algorithm>

namespace kvbench {

bool TwinPolicy::can_share(const PolicyTraits& policy) {
  const bool keeps_all = policy.capacity == kUnlimited && !policy.keep_share;
  const bool streams = (policy.kept && !keeps_all) || policy.sink_token.has_value();
  return !streams && !policy.recompute_length && policy.timing != EvictTiming::chunked &&
         policy.positions == PositionMode::original;
}

bool TwinPolicy::add(const PolicyTraits& policy) {
  PolicyNeeds& gathered = traits_.needs;
  const PolicyNeeds& needs = policy.needs;
  if (!can_share(policy)) return false;
  if (needs.query_moments && gathered.query_moments &&
      gathered.moments_skip != needs.moments_skip) {
    return false;
  }
  gathered.window = std::max(gathered.window, needs.window);
  gathered.mass = gathered.mass || needs.mass;
  if (needs.query_moments) {
    gathered.query_moments = true;
    gathered.moments_skip = needs.moments_skip;
  }
  return true;
}

bool TwinPolicy::gathers_for(const PolicyTraits& policy) const {
  const PolicyNeeds& gathered = traits_.needs;
  const PolicyNeeds& needs = policy.needs;
  const bool moments = !needs.query_moments ||
                       (gathered.query_moments && gathered.moments_skip == needs.moments_skip);
  return can_share(policy) && needs.window <= gathered.window && (gathered.mass || !needs.mass) &&
         moments;
}

}  // namespace kvbench
