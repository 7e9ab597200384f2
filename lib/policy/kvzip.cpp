// kvzip: rates entries by how much the model needs them to reconstruct its own context: the prompt
// is read a second time, chunk by chunk, and an entry's score is the largest attention weight that
// it receives. One budget for all layers and heads; the first entries stay.
#include "policy/registry.hpp"
#include "policy/scorer.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    capacity_option(),
    keep_option(),
    {"chunk", OptionKind::integer, "2048", 1, kMaxEntries, "", "tokens reconstructed at a time"},
    {"sinks", OptionKind::integer, "4", 0, kMaxEntries, "", "first entries that stay"},
    {"instruction", OptionKind::text, "none", 0, 0, "",
     "token ids before each chunk, with dots between them: a request to repeat the context"},
    {"scope", OptionKind::choice, "model", 0, 0, "model|layer",
     "what shares a budget: all layers, or the heads of a layer equally"},
};

class KvzipScorer final : public Scorer {
 public:
  explicit KvzipScorer(const PolicyOptions& options) : sinks_(options.integer("sinks")) {
    needs_.replay = {.tokens = ReplayNeeds::Tokens::prompt,
                     .chunk = options.integer("chunk"),
                     .instruction = options.ids("instruction"),
                     .sinks = sinks_};
  }
  PolicyNeeds needs() const override { return needs_; }
  std::int64_t always_kept() const override { return sinks_; }

  void score(LayerView& view, std::int64_t kv_head, std::vector<double>& scores) override {
    const auto largest = view.replayed(kv_head);
    const auto positions = view.positions(kv_head);
    scores.assign(largest.begin(), largest.end());
    for (std::size_t slot = 0; slot < scores.size() && positions[slot] < sinks_; ++slot) {
      scores[slot] = kAlwaysKept;
    }
  }

 private:
  std::int64_t sinks_;
  PolicyNeeds needs_;
};

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  auto scorer = std::make_unique<KvzipScorer>(options);
  const auto scope = options.text("scope") == "model" ? EvictScope::model : EvictScope::layer;
  const PolicyTraits traits = after_prompt_traits(options, *scorer, scope);
  return make_scored_policy(traits, std::move(scorer));
}

}  // namespace

PolicyInfo kvzip_policy() {
  return {"kvzip",
          "kvzip:capacity=1024",
          "keeps what the model needs to repeat its context",
          "KVzip (arXiv:2505.23416), section 3",
          kOptions,
          make};
}

}  // namespace kvbench
