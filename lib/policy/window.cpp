// window: the last `capacity` entries. Relative distances are the same under both position modes,
// so the mode changes nothing but rounding; cache_index keeps angles small on long texts.
#include "core/error.hpp"
#include "policy/registry.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    {"capacity", OptionKind::integer, "", 0, kMaxEntries, "", "entries kept per KV head"},
    evict_option(),
    positions_option("cache_index"),
};

class WindowPolicy final : public EvictionPolicy {
 public:
  explicit WindowPolicy(const PolicyOptions& options) {
    traits_.capacity = options.integer("capacity");
    if (traits_.capacity == 0) config_error("window0 keeps nothing: use policy full for no limit");
    traits_.evict = options.evict();
    traits_.positions = options.positions();
    traits_.kept = AttentionPattern{.sinks = 0, .recent = traits_.capacity};
  }
  const PolicyTraits& traits() const override { return traits_; }

 private:
  PolicyTraits traits_;
};

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  return std::make_unique<WindowPolicy>(options);
}

}  // namespace

PolicyInfo window_policy() {
  return {"window",
          "window1024",
          "keeps the last entries",
          "StreamingLLM (arXiv:2309.17453), window attention of figure 1b",
          kOptions,
          make};
}

}  // namespace kvbench
