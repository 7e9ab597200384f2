// tova: keeps the entries that the newest query attends to most, one set for all KV heads of a
// layer (mean over all query heads). The newest entry itself may go.
#include "policy/registry.hpp"
#include "policy/scorer.hpp"
#include "policy/top_entries.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    capacity_option(),
    keep_option(),
    {"variant", OptionKind::choice, "paper", 0, 0, "paper|kvpress",
     "paper: any entry may go; kvpress: the newest always stays"},
    timing_option("decode"),
    interval_option(),
    evict_option(),
    positions_option("original"),
};

class TovaPolicy final : public EvictionPolicy {
 public:
  explicit TovaPolicy(const PolicyOptions& options)
      : traits_(scored_traits(options, one_row())),
        keep_newest_(options.text("variant") == "kvpress") {}
  const PolicyTraits& traits() const override { return traits_; }

  void select(LayerView& view, KeepList& keep) override {
    const std::int64_t length = view.length(0);
    const std::int64_t newest = keep_newest_ ? 1 : 0;
    scores_.assign(static_cast<std::size_t>(length - newest), 0.0);
    for (std::int64_t head = 0; head < view.n_heads; ++head) {
      const auto row = view.window_row(head, view.window_rows() - 1);
      for (std::size_t slot = 0; slot < scores_.size(); ++slot) {
        scores_[slot] += static_cast<double>(row[slot]);
      }
    }
    keep.ties_at_cut += keep_best(scores_, view.capacity - newest, 0, view.layer, 0, keep[0]);
    keep_run(length - newest, length, keep[0]);
    for (std::size_t kv_head = 1; kv_head < keep.size(); ++kv_head) keep[kv_head] = keep[0];
  }

 private:
  static PolicyNeeds one_row() {
    PolicyNeeds needs;
    needs.window = 1;
    return needs;
  }

  PolicyTraits traits_;
  bool keep_newest_;
  std::vector<double> scores_;  // [length], summed over the query heads
};

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  return std::make_unique<TovaPolicy>(options);
}

}  // namespace

PolicyInfo tova_policy() {
  return {"tova",
          "tova:capacity=1024",
          "keeps what the newest query attends to most",
          "TOVA (arXiv:2401.06104), section 3.2",
          kOptions,
          make};
}

}  // namespace kvbench
