// sink: the first `sinks` entries, the attention sinks, and the last `recent` ones (StreamingLLM).
// Positions are places in the cache by default, as in the paper's section 3.2.
#include "core/error.hpp"
#include "policy/registry.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    {"sinks", OptionKind::integer, "4", 0, kMaxEntries, "", "first entries that always stay"},
    {"recent", OptionKind::integer, "", 0, kMaxEntries, "", "last entries that stay"},
    {"sink_tokens", OptionKind::choice, "first", 0, 0, "first|newline",
     "the sinks are the text's first tokens, or line breaks in their place"},
    {"newline_id", OptionKind::integer, "-1", -1, kMaxEntries, "",
     "sink_tokens=newline: the tokenizer's id of a line break"},
    evict_option(),
    positions_option("cache_index"),
};

class SinkPolicy final : public EvictionPolicy {
 public:
  explicit SinkPolicy(const PolicyOptions& options) {
    const std::int64_t sinks = options.integer("sinks");
    const std::int64_t recent = options.integer("recent");
    if (recent < 1) {
      config_error(
          "policy sink: key recent: expected at least 1, found {} (the budget must exceed the "
          "sinks by 1 or more)",
          recent);
    }
    const std::int64_t newline = options.integer("newline_id");
    const bool replaced = options.text("sink_tokens") == "newline";
    if (replaced != (newline >= 0)) {
      config_error("policy '{}': sink_tokens=newline and newline_id=ID go together",
                   options.policy_text());
    }
    if (replaced) traits_.sink_token = static_cast<std::int32_t>(newline);
    traits_.capacity = sinks + recent;
    traits_.evict = options.evict();
    traits_.positions = options.positions();
    traits_.kept = AttentionPattern{.sinks = sinks, .recent = recent};
  }
  const PolicyTraits& traits() const override { return traits_; }

 private:
  PolicyTraits traits_;
};

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  return std::make_unique<SinkPolicy>(options);
}

}  // namespace

PolicyInfo sink_policy() {
  return {"sink",
          "sink4+1020",
          "keeps the first entries (attention sinks) and the last ones",
          "StreamingLLM (arXiv:2309.17453), section 3.2; line breaks as sinks: its table 1",
          kOptions,
          make};
}

}  // namespace kvbench
