// pyramidkv: lower layers keep more. The budget falls linearly from the first layer to the last,
// beside what every layer must keep (the window of snapkv, the scorer by default), and the layers
// together keep exactly n_layers * capacity entries, so that it compares with other policies.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.hpp"
#include "policy/registry.hpp"
#include "policy/scorer.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    scorer_option(),
    {"beta", OptionKind::real, "20", 1, 1e6, "",
     "the last layer keeps 1/beta of the mean, beside what always stays"},
    capacity_option(),
    keep_option(),
    timing_option("prefill"),
    interval_option(),
    evict_option(),
    original_positions_option(),
};

// Rounds so that the sum is kept: every part down, then the largest remainders up.
void round_parts(std::span<const double> exact, std::int64_t sum, std::span<std::int64_t> parts) {
  std::vector<std::size_t> order(exact.size());
  std::iota(order.begin(), order.end(), 0);
  std::int64_t left = sum;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    parts[i] = static_cast<std::int64_t>(exact[i]);
    left -= parts[i];
  }
  const auto remainder = [&](std::size_t i) { return exact[i] - static_cast<double>(parts[i]); };
  std::vector<double> remainders(exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) remainders[i] = remainder(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  for (std::size_t i = 0; left > 0; ++i, --left) ++parts[order[i % order.size()]];
}

class PyramidkvPolicy final : public EvictionPolicy {
 public:
  PyramidkvPolicy(const PolicyOptions& options, std::unique_ptr<Scorer> scorer)
      // Under evict=before the next token has a place in every layer's budget too.
      : always_kept_(scorer->always_kept() + (options.evict() == EvictWhen::before ? 1 : 0)),
        beta_(options.real("beta")),
        text_(options.policy_text()),
        heads_(make_scored_policy(options, std::move(scorer))) {
    const std::int64_t shared = options.integer("capacity") - always_kept_;
    if (!traits().keep_share && (shared < 2 || beta_ == 1.0)) refuse(shared);
  }
  const PolicyTraits& traits() const override { return heads_->traits(); }
  void reset(std::uint64_t seed) override { heads_->reset(seed); }
  void select(LayerView& view, KeepList& keep) override { heads_->select(view, keep); }

  void share_capacity(std::int64_t capacity, std::int64_t longest,
                      std::span<std::int64_t> per_layer) const override {
    const auto n_layers = static_cast<std::int64_t>(per_layer.size());
    std::fill(per_layer.begin(), per_layer.end(), capacity);
    if (n_layers == 1 || capacity >= longest) return;
    require_room(traits(), capacity, always_kept_);
    const auto mean = static_cast<double>(capacity - always_kept_);
    double least = std::max(1.0, mean / beta_);
    double most = 2.0 * mean - least;
    // No layer is given more than it can hold: what the first ones lack goes to the last.
    if (most > static_cast<double>(longest - always_kept_)) {
      most = static_cast<double>(longest - always_kept_);
      least = 2.0 * mean - most;
    }
    std::vector<double> exact(per_layer.size());
    for (std::size_t layer = 0; layer < exact.size(); ++layer) {
      exact[layer] =
          most - (most - least) * static_cast<double>(layer) / static_cast<double>(n_layers - 1);
    }
    round_parts(exact, n_layers * (capacity - always_kept_), per_layer);
    if (per_layer.front() == per_layer.back()) refuse(capacity - always_kept_);
    for (std::int64_t& entries : per_layer) entries += always_kept_;
  }

 private:
  // All layers alike are another policy.
  [[noreturn]] void refuse(std::int64_t shared) const {
    config_error(
        "policy '{}': {} entries per layer beside the {} that always stay, at beta {}, make no "
        "pyramid",
        text_, shared, always_kept_, beta_);
  }

  std::int64_t always_kept_;
  double beta_;
  std::string text_;
  std::unique_ptr<EvictionPolicy> heads_;
};

std::unique_ptr<EvictionPolicy> make_over(const PolicyOptions& options,
                                          std::unique_ptr<Scorer> scorer) {
  return std::make_unique<PyramidkvPolicy>(options, std::move(scorer));
}

}  // namespace

PolicyInfo pyramidkv_policy() {
  return {"pyramidkv",
          "pyramidkv:capacity=1024,window=32",
          "lower layers keep more, at the same total",
          "PyramidKV (arXiv:2406.02069), section 4",
          kOptions,
          nullptr,
          nullptr,
          make_over};
}

}  // namespace kvbench
