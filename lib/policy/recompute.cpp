// recompute: sliding window with re-computation. Nothing is cached: each token is the last of a
// fresh forward over the last `length` tokens at positions 0 .. length-1. With two layers or more
// this is not a cached window, whose entries still carry what they saw of evicted tokens.
#include "policy/registry.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    {"length", OptionKind::integer, "", 1, kMaxEntries, "", "tokens of each fresh forward"},
};

class RecomputePolicy final : public EvictionPolicy {
 public:
  explicit RecomputePolicy(const PolicyOptions& options) {
    traits_.capacity = options.integer("length");
    traits_.evict = EvictWhen::before;
    traits_.recompute_length = traits_.capacity;
  }
  const PolicyTraits& traits() const override { return traits_; }

 private:
  PolicyTraits traits_;
};

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  return std::make_unique<RecomputePolicy>(options);
}

}  // namespace

PolicyInfo recompute_policy() {
  return {"recompute",
          "recompute1024",
          "re-computes the last tokens afresh for every token",
          "StreamingLLM (arXiv:2309.17453), sliding window with re-computation of figure 1c",
          kOptions,
          make};
}

}  // namespace kvbench
