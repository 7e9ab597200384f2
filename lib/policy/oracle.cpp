// oracle: looks ahead. With the full cache it reads the tokens that will follow, and keeps what
// they attend to most, per KV head. No choice of as many entries captures more of that attention:
// an upper bound for a budget, not a policy that could be used.
#include "policy/registry.hpp"
#include "policy/scorer.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    capacity_option(),
    keep_option(),
    {"scope", OptionKind::choice, "layer", 0, 0, "layer|model",
     "what shares a budget: the heads of a layer equally, or all layers"},
};

class OracleScorer final : public Scorer {
 public:
  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.replay.tokens = ReplayNeeds::Tokens::continuation;
    return needs;
  }
  void score(LayerView& view, std::int64_t kv_head, std::vector<double>& scores) override {
    const auto sums = view.replayed(kv_head);
    scores.assign(sums.begin(), sums.end());
  }
};

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  const auto scope = options.text("scope") == "model" ? EvictScope::model : EvictScope::layer;
  auto scorer = std::make_unique<OracleScorer>();
  const PolicyTraits traits = after_prompt_traits(options, *scorer, scope);
  return make_scored_policy(traits, std::move(scorer));
}

}  // namespace

PolicyInfo oracle_policy() {
  return {"oracle",
          "oracle:capacity=1024",
          "keeps what the text's own continuation attends to most",
          "upper bound",
          kOptions,
          make};
}

}  // namespace kvbench
