// every_other: keeps the newest entry and, going back from it, every second one.
#include "policy/registry.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    {"capacity", OptionKind::integer, "", 1, kMaxEntries, "", "entries kept per KV head"},
};

class EveryOtherPolicy final : public EvictionPolicy {
 public:
  explicit EveryOtherPolicy(const PolicyOptions& options) {
    traits_.capacity = options.integer("capacity");
  }
  const PolicyTraits& traits() const override { return traits_; }

  void select(LayerView& view, KeepList& keep) override {
    for (std::size_t kv_head = 0; kv_head < keep.size(); ++kv_head) {
      const auto newest = view.length(static_cast<std::int64_t>(kv_head)) - 1;
      for (std::int64_t back = 2 * (view.capacity - 1); back >= 0; back -= 2) {
        if (back <= newest) keep[kv_head].push_back(static_cast<std::int32_t>(newest - back));
      }
    }
  }

 private:
  PolicyTraits traits_;
};

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  return std::make_unique<EveryOtherPolicy>(options);
}
}  // namespace

PolicyInfo every_other_policy() {
  return {"every_other", "every_other:capacity=64", "keeps every second entry", "example", kOptions,
          make};
}
}  // namespace kvbench
