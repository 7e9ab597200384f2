// keydiff: keeps the keys that differ most from the mean direction of all keys: each key's score is
// minus its cosine with the mean of the normalised keys, as attention sees them (rotated).
#include <algorithm>
#include <cmath>

#include "policy/registry.hpp"
#include "policy/scorer.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    capacity_option(), keep_option(),  timing_option("prefill"),
    interval_option(), evict_option(), positions_option("original"),
};

class KeydiffScorer final : public Scorer {
 public:
  PolicyNeeds needs() const override { return {}; }

  void score(LayerView& view, std::int64_t kv_head, std::vector<double>& scores) override {
    const auto keys = view.keys(kv_head);
    const auto d = static_cast<std::size_t>(view.head_dim);
    scores.resize(static_cast<std::size_t>(view.length(kv_head)));
    norms_.resize(scores.size());
    anchor_.assign(d, 0.0);
    for (std::size_t slot = 0; slot < scores.size(); ++slot) {
      const auto key = keys.subspan(slot * d, d);
      // A key of zeros has no direction: it counts as at right angles to all.
      norms_[slot] = std::max(std::sqrt(dot(key, key)), kSmallestNorm);
      for (std::size_t i = 0; i < d; ++i) {
        anchor_[i] += static_cast<double>(key[i]) / norms_[slot];
      }
    }
    double squares = 0.0;
    for (const double x : anchor_) squares += x * x;
    const double anchor_norm = std::max(std::sqrt(squares), kSmallestNorm);
    for (std::size_t slot = 0; slot < scores.size(); ++slot) {
      const auto key = keys.subspan(slot * d, d);
      scores[slot] = -dot(key, anchor_) / (norms_[slot] * anchor_norm);
    }
  }

 private:
  static constexpr double kSmallestNorm = 1e-12;

  template <class Other>
  static double dot(std::span<const float> a, const Other& b) {
    double sum = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    return sum;
  }

  std::vector<double> norms_;   // [length]
  std::vector<double> anchor_;  // [head_dim], a sum: its length does not matter
};

std::unique_ptr<Scorer> make_scorer(const PolicyOptions&) {
  return std::make_unique<KeydiffScorer>();
}

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  return make_scored_policy(options, make_scorer(options));
}

}  // namespace

PolicyInfo keydiff_policy() {
  return {"keydiff",
          "keydiff:capacity=1024",
          "keeps the keys least like the others",
          "KeyDiff (arXiv:2504.15364), section 3, for all entries at once",
          kOptions,
          make,
          make_scorer};
}

}  // namespace kvbench
