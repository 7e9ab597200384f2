// lagkv: entries after the sinks are cut into partitions of `lag`; each is rated against the value
// range of the next one, per channel, by how unevenly an entry fills that range. Sinks and all that
// has no full partition behind it stay.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "policy/registry.hpp"
#include "policy/scorer.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    capacity_option(),
    keep_option(),
    {"lag", OptionKind::integer, "128", 1, kMaxEntries, "", "entries of a partition"},
    {"sinks", OptionKind::integer, "4", 0, kMaxEntries, "", "first entries that stay"},
    {"compare", OptionKind::choice, "rank", 0, 0, "rank|score",
     "across partitions: ranks within each, so that all keep equally many; or the scores"},
    timing_option("prefill"),
    interval_option(),
    evict_option(),
    positions_option("original"),
};

class LagkvScorer final : public Scorer {
 public:
  explicit LagkvScorer(const PolicyOptions& options)
      : lag_(static_cast<std::size_t>(options.integer("lag"))),
        sinks_(static_cast<std::size_t>(options.integer("sinks"))),
        by_rank_(options.text("compare") == "rank") {}
  PolicyNeeds needs() const override { return {}; }
  std::int64_t always_kept() const override { return static_cast<std::int64_t>(sinks_); }

  void score(LayerView& view, std::int64_t kv_head, std::vector<double>& scores) override {
    const auto length = static_cast<std::size_t>(view.length(kv_head));
    scores.assign(length, kAlwaysKept);
    if (length <= sinks_) return;
    const std::size_t rest = length - sinks_;
    if (rest < 2 * lag_) {  // nothing to compare with: the newest
      std::iota(scores.begin() + static_cast<std::ptrdiff_t>(sinks_), scores.end(), 0.0);
      return;
    }
    const auto d = static_cast<std::size_t>(view.head_dim);
    const auto keys = view.keys(kv_head);
    const auto values = view.values(kv_head);
    for (std::size_t p = 0; p + 1 < rest / lag_; ++p) {
      const std::size_t first = sinks_ + p * lag_;
      const std::span<double> part(scores.data() + first, lag_);
      std::fill(part.begin(), part.end(), 0.0);
      add_half(keys.subspan(first * d, 2 * lag_ * d), d, part);
      add_half(values.subspan(first * d, 2 * lag_ * d), d, part);
      if (by_rank_) rank(part);
    }
  }

 private:
  // Adds half of the softmax, over a partition, of each row's spread. rows: [2 * lag, d], the
  // partition and its successor.
  void add_half(std::span<const float> rows, std::size_t d, std::span<double> part) {
    lowest_.assign(d, std::numeric_limits<float>::infinity());
    highest_.assign(d, -std::numeric_limits<float>::infinity());
    for (std::size_t i = lag_ * d; i < rows.size(); ++i) {
      lowest_[i % d] = std::min(lowest_[i % d], rows[i]);
      highest_[i % d] = std::max(highest_[i % d], rows[i]);
    }
    spread_.resize(lag_);
    for (std::size_t row = 0; row < lag_; ++row) spread_[row] = spread(rows.subspan(row * d, d));
    const double largest = *std::max_element(spread_.begin(), spread_.end());
    double sum = 0.0;
    for (double& x : spread_) sum += x = std::exp(x - largest);
    for (std::size_t row = 0; row < lag_; ++row) part[row] += 0.5 * spread_[row] / sum;
  }

  // Standard deviation, over the channels, of a row's places in the successor's ranges. A channel
  // that is constant there has no range and is left out.
  double spread(std::span<const float> row) const {
    double sum = 0.0;
    double squares = 0.0;
    double n = 0.0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double range = static_cast<double>(highest_[i]) - static_cast<double>(lowest_[i]);
      if (range == 0.0) continue;
      const double place = (static_cast<double>(row[i]) - static_cast<double>(lowest_[i])) / range;
      sum += place;
      squares += place * place;
      n += 1.0;
    }
    return n < 2.0 ? 0.0 : std::sqrt(std::max(0.0, (squares - sum * sum / n) / (n - 1.0)));
  }

  // Scores become ranks 0 .. 1 - 1/lag; of equal ones, the lower position ranks lower.
  static void rank(std::span<double> part) {
    std::vector<std::size_t> order(part.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return part[a] < part[b]; });
    for (std::size_t i = 0; i < order.size(); ++i) {
      part[order[i]] = static_cast<double>(i) / static_cast<double>(part.size());
    }
  }

  std::size_t lag_;
  std::size_t sinks_;
  bool by_rank_;
  std::vector<float> lowest_, highest_;  // [head_dim] of the successor
  std::vector<double> spread_;           // [lag]
};

std::unique_ptr<Scorer> make_scorer(const PolicyOptions& options) {
  return std::make_unique<LagkvScorer>(options);
}

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  return make_scored_policy(options, make_scorer(options));
}

}  // namespace

PolicyInfo lagkv_policy() {
  return {"lagkv",
          "lagkv:capacity=1024",
          "keeps entries that stand out against those that follow",
          "LagKV (arXiv:2504.04704), section 3",
          kOptions,
          make,
          make_scorer};
}

}  // namespace kvbench
