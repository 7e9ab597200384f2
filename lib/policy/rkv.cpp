// rkv: for long reasoning: attention from the last queries against redundancy, the likeness of an
// entry's key to the other keys. The observation window stays.
#include <algorithm>
#include <cmath>

#include "backend/cpu/tile_kernels.hpp"
#include "core/error.hpp"
#include "policy/registry.hpp"
#include "policy/scorer.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    capacity_option(),
    keep_option(),
    {"window", OptionKind::integer, "8", 1, kMaxEntries, "", "last queries; their entries stay"},
    {"kernel", OptionKind::integer, "7", 1, 1025, "", "entries of a max pool; odd"},
    {"lambda", OptionKind::real, "0.1", 0, 1, "", "weight of attention; 1 - lambda: redundancy"},
    {"threshold", OptionKind::real, "0.5", -1, 1, "",
     "cosine from which a key repeats another one"},
    timing_option("decode"),
    {"interval", OptionKind::integer, "128", 1, kMaxEntries, "",
     "timing=decode: steps from one eviction to the next"},
    evict_option(),
    positions_option("original"),
};

void softmax(std::span<double> x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0.0;
  for (double& value : x) sum += value = std::exp(value - largest);
  for (double& value : x) value /= sum;
}

class RkvScorer final : public Scorer {
 public:
  explicit RkvScorer(const PolicyOptions& options)
      : window_(options.integer("window")),
        reach_(options.integer("kernel") / 2),
        lambda_(options.real("lambda")),
        threshold_(options.real("threshold")) {
    if (options.integer("kernel") % 2 == 0) {
      config_error("policy '{}': key kernel: expected an odd number, found {}",
                   options.policy_text(), options.integer("kernel"));
    }
  }
  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.window = window_;
    return needs;
  }
  std::int64_t always_kept() const override { return window_; }

  void score(LayerView& view, std::int64_t kv_head, std::vector<double>& scores) override {
    const std::int64_t length = view.length(kv_head);
    const std::int64_t observed = std::max<std::int64_t>(0, length - rows(view));
    scores.assign(static_cast<std::size_t>(length), kAlwaysKept);
    if (observed == 0) return;
    importance(view, kv_head, static_cast<std::size_t>(observed));
    redundancy(view, kv_head);
    for (std::int64_t slot = 0; slot < observed; ++slot) {
      const std::int64_t last = std::min(slot + reach_, observed - 1);
      double pooled = 0.0;
      for (std::int64_t i = std::max<std::int64_t>(slot - reach_, 0); i <= last; ++i) {
        pooled = std::max(pooled, importance_[static_cast<std::size_t>(i)]);
      }
      const auto at = static_cast<std::size_t>(slot);
      scores[at] = lambda_ * pooled - (1.0 - lambda_) * redundancy_[at];
    }
  }

 private:
  std::int64_t rows(LayerView& view) const { return std::min(window_, view.window_rows()); }

  // Mean over the window's rows of a softmax over the entries before it; each row is the largest
  // logit among the group's query heads.
  void importance(LayerView& view, std::int64_t kv_head, std::size_t observed) {
    const std::int64_t end = view.window_rows();
    importance_.assign(observed, 0.0);
    for (std::int64_t row = end - rows(view); row < end; ++row) {
      logits_.assign(observed, -1e300);
      for (std::int64_t head = kv_head * view.group; head < (kv_head + 1) * view.group; ++head) {
        const auto weights = view.window_row(head, row);
        const double log_sum_exp = view.window_log_sum_exp(head, row);
        for (std::size_t slot = 0; slot < observed; ++slot) {
          if (weights[slot] == 0.0f) continue;  // hidden, or far too small to matter
          logits_[slot] =
              std::max(logits_[slot], std::log(static_cast<double>(weights[slot])) + log_sum_exp);
        }
      }
      softmax(logits_);
      for (std::size_t slot = 0; slot < observed; ++slot) {
        importance_[slot] += logits_[slot] / static_cast<double>(rows(view));
      }
    }
  }

  // Softmax over all entries of the mean cosine of each key with the others. Of the keys that
  // repeat a given one, the last is not counted against it: the newest copy is worth keeping.
  void redundancy(LayerView& view, std::int64_t kv_head) {
    const auto length = static_cast<std::size_t>(view.length(kv_head));
    const auto width = static_cast<std::size_t>(tile::padded(static_cast<std::int64_t>(length)));
    normalise(view, kv_head, length, width);
    redundancy_.assign(length, 0.0);
    constexpr std::size_t kRows = 64;
    cosines_.resize(kRows * width);
    for (std::size_t first = 0; first < length; first += kRows) {
      const std::size_t n = std::min(kRows, length - first);
      tile::product({.a = columns_.data() + first,
                     .a_row = 1,
                     .a_inner = static_cast<std::int64_t>(width),
                     .b = columns_.data(),
                     .c = cosines_.data(),
                     .n_rows = static_cast<std::int64_t>(n),
                     .n_inner = view.head_dim,
                     .n_columns = static_cast<std::int64_t>(width),
                     .accumulate = false});
      for (std::size_t i = 0; i < n; ++i) add_row(cosines_.data() + i * width, first + i);
    }
    for (double& x : redundancy_) x /= static_cast<double>(length);
    softmax(redundancy_);
  }

  void add_row(float* cosines, std::size_t key) {
    const std::size_t length = redundancy_.size();
    cosines[key] = 0.0f;
    for (std::size_t i = length; i-- > 0;) {
      if (static_cast<double>(cosines[i]) <= threshold_ || i == key) continue;
      cosines[i] = 0.0f;
      break;
    }
    for (std::size_t i = 0; i < length; ++i) redundancy_[i] += static_cast<double>(cosines[i]);
  }

  // Keys of length 1 as columns: [head_dim, width].
  void normalise(LayerView& view, std::int64_t kv_head, std::size_t length, std::size_t width) {
    const auto d = static_cast<std::size_t>(view.head_dim);
    const auto keys = view.keys(kv_head);
    columns_.assign(d * width, 0.0f);
    for (std::size_t slot = 0; slot < length; ++slot) {
      double squares = 0.0;
      for (const float x : keys.subspan(slot * d, d)) squares += static_cast<double>(x) * x;
      const double factor = 1.0 / (std::sqrt(squares) + 1e-8);
      for (std::size_t i = 0; i < d; ++i) {
        columns_[i * width + slot] =
            static_cast<float>(static_cast<double>(keys[slot * d + i]) * factor);
      }
    }
  }

  std::int64_t window_;
  std::int64_t reach_;  // entries of the max pool on each side
  double lambda_;
  double threshold_;
  std::vector<double> importance_;  // [entries before the window]
  std::vector<double> logits_;      // likewise, of one row
  std::vector<double> redundancy_;  // [length]
  std::vector<float> columns_;      // [head_dim, padded length]
  std::vector<float> cosines_;      // [some keys, padded length]
};

std::unique_ptr<Scorer> make_scorer(const PolicyOptions& options) {
  return std::make_unique<RkvScorer>(options);
}

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  return make_scored_policy(options, make_scorer(options));
}

}  // namespace

PolicyInfo rkv_policy() {
  return {"rkv",
          "rkv:capacity=1024",
          "keeps what is attended to and not redundant",
          "R-KV (arXiv:2505.24133), section 3",
          kOptions,
          make,
          make_scorer};
}

}  // namespace kvbench
