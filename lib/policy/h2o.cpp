// h2o: heavy hitters, the entries that received most attention so far, and the most recent ones,
// per KV head (the mass is summed over the group's query heads). Positions are original.
#include <algorithm>

#include "core/error.hpp"
#include "policy/registry.hpp"
#include "policy/top_entries.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    {"heavy", OptionKind::integer, "", 0, kMaxEntries, "", "heavy hitters kept per KV head"},
    {"recent", OptionKind::integer, "", 0, kMaxEntries, "", "last entries that stay"},
    timing_option("decode"),
    interval_option(),
    evict_option(),
    positions_option("original"),
};

class H2oPolicy final : public EvictionPolicy {
 public:
  explicit H2oPolicy(const PolicyOptions& options) : recent_(options.integer("recent")) {
    if (recent_ < 1) {
      config_error(
          "policy h2o: key recent: expected at least 1, found 0 (the newest entry has had one "
          "query only; without a recent part it goes at once and the first entries stay for ever)");
    }
    traits_.capacity = options.integer("heavy") + recent_;
    traits_.timing = options.timing();
    traits_.interval = options.integer("interval");
    traits_.evict = options.evict();
    traits_.positions = options.positions();
    traits_.needs.mass = true;
  }
  const PolicyTraits& traits() const override { return traits_; }

  void select(LayerView& view, KeepList& keep) override {
    for (std::int64_t kv_head = 0; kv_head < view.n_kv_heads; ++kv_head) {
      auto& kept = keep[static_cast<std::size_t>(kv_head)];
      const std::int64_t length = view.length(kv_head);
      const std::int64_t recent = std::min({recent_, view.capacity, length});
      const auto old = view.mass(kv_head).first(static_cast<std::size_t>(length - recent));
      keep.ties_at_cut += keep_best(old, view.capacity - recent, 0, view.layer, kv_head, kept);
      keep_run(length - recent, length, kept);
    }
  }

 private:
  PolicyTraits traits_;
  std::int64_t recent_;
};

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  return std::make_unique<H2oPolicy>(options);
}

}  // namespace

PolicyInfo h2o_policy() {
  return {"h2o",
          "h2o:heavy=512,recent=512",
          "keeps heavy hitters and recent entries",
          "H2O (arXiv:2306.14048), algorithm 1",
          kOptions,
          make};
}

}  // namespace kvbench
