// full: nothing is evicted. The baseline of every comparison.
#include "policy/registry.hpp"

namespace kvbench {
namespace {

class FullPolicy final : public EvictionPolicy {
 public:
  FullPolicy() { traits_.kept = AttentionPattern{}; }
  const PolicyTraits& traits() const override { return traits_; }

 private:
  PolicyTraits traits_;
};

std::unique_ptr<EvictionPolicy> make(const PolicyOptions&) {
  return std::make_unique<FullPolicy>();
}

}  // namespace

PolicyInfo full_policy() {
  return {"full", "full", "keeps every entry", "baseline", {}, make};
}

}  // namespace kvbench
