// The policy of a full-cache twin: keeps everything, and gathers during the prompt what a number of
// policies need for their selections, so that sessions of theirs can take its prompt over.
#pragma once

#include <span>

#include "policy/eviction_policy.hpp"

namespace kvbench {

class TwinPolicy final : public EvictionPolicy {
 public:
  TwinPolicy() { traits_.timing = EvictTiming::prefill; }

  // Whether what the policy does to a prompt follows the prompt's last token, so that a forward
  // with the full cache serves it; so it is under `full` too.
  static bool can_share(const PolicyTraits& policy);
  // Gathers for this policy too. False, and nothing changes, where it needs a prompt of its own.
  // Call before a session is made.
  bool add(const PolicyTraits& policy);
  // Whether it was added, or one that needs as much.
  bool gathers_for(const PolicyTraits& policy) const;

  const PolicyTraits& traits() const override { return traits_; }

 private:
  PolicyTraits traits_;
};

}  // namespace kvbench
