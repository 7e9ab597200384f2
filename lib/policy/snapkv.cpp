// snapkv: the last queries of the prompt vote on what stays. Their attention over the entries
// before them is summed over the window and over the query heads of a group, and pooled along the
// text so that neighbours of what was attended to stay too. The window itself always stays.
// Sources of the variants: official, the paper's experiments (LongBench configuration of its
// code: window 32, max pooling over 7); kvpress, the defaults of that library's SnapKVPress;
// paper-p, the paper's listing 1, which keeps the share p of what stands before the window.
#include <algorithm>

#include "core/error.hpp"
#include "policy/registry.hpp"
#include "policy/scorer.hpp"
#include "policy/top_entries.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    {"variant", OptionKind::choice, "official", 0, 0, "official|kvpress|paper-p",
     "preset of the defaults below"},
    capacity_option(),
    keep_option(),
    {"p", OptionKind::real, "0", 0, 1, "",
     "variant=paper-p, in place of capacity: share kept of the entries before the window"},
    {"window", OptionKind::integer, "32", 1, kMaxEntries, "",
     "last queries that vote; their entries always stay", "kvpress=64"},
    {"kernel", OptionKind::integer, "7", 1, 1e6, "", "entries pooled (odd)", "kvpress=5"},
    {"pool", OptionKind::choice, "max", 0, 0, "max|avg|none", "pooling along the text",
     "kvpress=avg"},
    {"group", OptionKind::choice, "mean", 0, 0, "mean|max|sum",
     "how the query heads of a group are combined"},
    {"order", OptionKind::choice, "pool_last", 0, 0, "pool_last|pool_first",
     "pooling after or before the group is combined", "kvpress=pool_first"},
    {"reduce", OptionKind::choice, "sum", 0, 0, "sum|mean", "over the window's queries",
     "kvpress=mean"},
    timing_option("prefill"),
    interval_option(),
    evict_option(),
    positions_option("original"),
};

enum class Pool : std::uint8_t { none, max, avg };
enum class Combine : std::uint8_t { mean, max, sum };

// Entries within kernel/2 on either side. Beyond the ends an average counts zeros, a maximum
// nothing.
void pool(Pool kind, std::int64_t kernel, std::vector<double>& scores) {
  if (kind == Pool::none || kernel == 1) return;
  const std::vector<double> in = scores;
  const auto n = static_cast<std::int64_t>(in.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const auto first = in.begin() + std::max<std::int64_t>(0, i - kernel / 2);
    const auto last = in.begin() + std::min(n, i + kernel / 2 + 1);
    double& out = scores[static_cast<std::size_t>(i)];
    if (kind == Pool::max) {
      out = *std::max_element(first, last);
    } else {
      out = 0.0;
      for (auto at = first; at != last; ++at) out += *at;
      out /= static_cast<double>(kernel);
    }
  }
}

class SnapkvScorer final : public Scorer {
 public:
  explicit SnapkvScorer(const PolicyOptions& options)
      : window_(options.integer("window")),
        kernel_(options.integer("kernel")),
        pool_first_(options.text("order") == "pool_first"),
        mean_rows_(options.text("reduce") == "mean") {
    if (kernel_ % 2 == 0) {
      config_error("policy '{}': key kernel: expected an odd number, found {}",
                   options.policy_text(), kernel_);
    }
    const std::string& pool = options.text("pool");
    pool_ = pool == "max" ? Pool::max : pool == "avg" ? Pool::avg : Pool::none;
    const std::string& group = options.text("group");
    combine_ = group == "max" ? Combine::max : group == "sum" ? Combine::sum : Combine::mean;
  }

  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.window = window_;
    return needs;
  }
  std::int64_t always_kept() const override { return window_; }

  void score(LayerView& view, std::int64_t kv_head, std::vector<double>& scores) override {
    const std::int64_t prefix = std::max<std::int64_t>(0, view.length(kv_head) - window_);
    scores.assign(static_cast<std::size_t>(prefix), 0.0);
    for (std::int64_t head = 0; head < view.group; ++head) {
      reduce_rows(view, kv_head * view.group + head, prefix);
      refuse_nan(votes_, 0, view.layer, kv_head);
      if (pool_first_) pool(pool_, kernel_, votes_);
      for (std::size_t i = 0; i < votes_.size(); ++i) {
        scores[i] =
            combine_ == Combine::max ? std::max(scores[i], votes_[i]) : scores[i] + votes_[i];
      }
    }
    if (combine_ == Combine::mean) {
      for (double& score : scores) score /= static_cast<double>(view.group);
    }
    if (!pool_first_) pool(pool_, kernel_, scores);
    for (double& score : scores) score = measured_score(score);
    scores.resize(static_cast<std::size_t>(view.length(kv_head)), kAlwaysKept);
  }

 private:
  // votes_ [prefix]: one query head's attention, over the window's rows.
  void reduce_rows(LayerView& view, std::int64_t head, std::int64_t prefix) {
    votes_.assign(static_cast<std::size_t>(prefix), 0.0);
    const std::int64_t available = view.window_rows();
    const std::int64_t rows = std::min(available, window_);
    for (std::int64_t row = available - rows; row < available; ++row) {
      const auto weights = view.window_row(head, row);
      for (std::size_t i = 0; i < votes_.size(); ++i) votes_[i] += static_cast<double>(weights[i]);
    }
    if (!mean_rows_) return;
    for (double& vote : votes_) vote /= static_cast<double>(rows);
  }

  std::int64_t window_;
  std::int64_t kernel_;
  bool pool_first_;
  bool mean_rows_;
  Pool pool_ = Pool::none;
  Combine combine_ = Combine::mean;
  std::vector<double> votes_;  // [entries before the window]
};

// The share p is an option of this policy alone; policies over the scorer have budgets of their
// own.
std::unique_ptr<Scorer> make_scorer(const PolicyOptions& options) {
  if (options.text("variant") == "paper-p" || options.real("p") > 0) {
    config_error("policy '{}': variant=paper-p and p go with policy snapkv itself; give capacity",
                 options.policy_text());
  }
  return std::make_unique<SnapkvScorer>(options);
}

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  const double share = options.real("p");
  if (options.text("variant") != "paper-p") {
    return make_scored_policy(options, make_scorer(options));
  }
  if (!(share > 0) || options.integer("capacity") > 0 || options.real("keep") > 0) {
    config_error("policy '{}': variant=paper-p: expected p above 0, and neither capacity nor keep",
                 options.policy_text());
  }
  auto scorer = std::make_unique<SnapkvScorer>(options);
  PolicyTraits traits = timing_traits(options, scorer->needs());
  traits.keep_share = share;
  traits.keep_beside = scorer->always_kept();
  return make_scored_policy(traits, std::move(scorer));
}

}  // namespace

PolicyInfo snapkv_policy() {
  return {"snapkv",
          "snapkv:capacity=1024,window=32",
          "keeps what the last queries of the prompt attend to, and its neighbours",
          "SnapKV (arXiv:2404.14469), section 4",
          kOptions,
          make,
          make_scorer};
}

}  // namespace kvbench
