// expected_attention: rates an entry by the attention that the next `future` queries can be
// expected to pay, if they are distributed like the prompt's queries: normal, with their mean and
// covariance before rotation, turned by the mean rotation of the places to come. Times the value's
// norm. The first entries stay: they draw attention whatever their keys say.
#include <algorithm>
#include <cmath>

#include "backend/cpu/tile_kernels.hpp"
#include "policy/registry.hpp"
#include "policy/scorer.hpp"

namespace kvbench {
namespace {

constexpr PolicyOption kOptions[] = {
    capacity_option(),
    keep_option(),
    {"future", OptionKind::integer, "512", 1, kMaxEntries, "", "places ahead that are averaged"},
    {"sinks", OptionKind::integer, "4", 0, kMaxEntries, "",
     "first tokens: their entries stay, their queries are left out"},
    {"epsilon", OptionKind::real, "0", 0, 1e6, "",
     "added to the expected attention, so that large values count by themselves"},
    {"covariance", OptionKind::choice, "yes", 0, 0, "yes|no", "whether the covariance counts"},
    {"value_norm", OptionKind::choice, "yes", 0, 0, "yes|no", "whether the value's norm counts"},
    timing_option("prefill"),
    interval_option(),
    evict_option(),
    positions_option("original"),
};

// Turns vectors by the mean of the rotations of places [first, first + n).
class MeanRotation {
 public:
  MeanRotation(const LayerView& view, std::int64_t first, std::int64_t n)
      : interleaved_(view.rope_interleaved()) {
    for (const double frequency : view.inv_freq()) {
      double cosine = 0.0;
      double sine = 0.0;
      for (std::int64_t i = 0; i < n; ++i) {
        const double angle = static_cast<double>(first + i) * frequency;
        cosine += std::cos(angle);
        sine += std::sin(angle);
      }
      const double factor = view.rope_attention_factor() / static_cast<double>(n);
      cosine_.push_back(cosine * factor);
      sine_.push_back(sine * factor);
    }
  }

  // `x` has elements `stride` apart.
  void apply(double* x, std::size_t stride) const {
    const std::size_t half = cosine_.size();
    for (std::size_t i = 0; i < half; ++i) {
      double& low = x[(interleaved_ ? 2 * i : i) * stride];
      double& high = x[(interleaved_ ? 2 * i + 1 : i + half) * stride];
      const double turned = low * cosine_[i] - high * sine_[i];
      high = high * cosine_[i] + low * sine_[i];
      low = turned;
    }
  }

 private:
  bool interleaved_;
  std::vector<double> cosine_, sine_;  // [rotary_dim / 2], means
};

class ExpectedAttentionScorer final : public Scorer {
 public:
  explicit ExpectedAttentionScorer(const PolicyOptions& options)
      : future_(options.integer("future")),
        sinks_(options.integer("sinks")),
        epsilon_(options.real("epsilon")),
        by_covariance_(options.text("covariance") == "yes"),
        by_value_(options.text("value_norm") == "yes"),
        by_slot_(options.positions() == PositionMode::cache_index) {}

  PolicyNeeds needs() const override {
    PolicyNeeds needs;
    needs.query_moments = true;
    needs.moments_skip = sinks_;
    return needs;
  }
  std::int64_t always_kept() const override { return sinks_; }

  void score(LayerView& view, std::int64_t kv_head, std::vector<double>& scores) override {
    const auto positions = view.positions(kv_head);
    const auto first = std::lower_bound(positions.begin(), positions.end(), sinks_);
    const auto sinks = static_cast<std::size_t>(first - positions.begin());
    scores.assign(positions.size(), kAlwaysKept);
    if (sinks == scores.size()) return;
    const std::int64_t next = by_slot_ ? view.length(kv_head) : view.tokens_seen;
    const MeanRotation rotation(view, next, future_);
    const std::span<double> rated = std::span<double>(scores).subspan(sinks);
    std::fill(rated.begin(), rated.end(), 0.0);
    for (std::int64_t g = 0; g < view.group; ++g) {
      logits(view, rotation, kv_head, kv_head * view.group + g, sinks);
      add_softmax(1.0 / static_cast<double>(view.group), rated);
    }
    if (by_value_) scale_by_values(view, kv_head, sinks, rated);
  }

 private:
  // Expected logarithm of exp(scale * q . k) for q normal, of each entry from `sinks` on:
  // scale * mean . k + scale^2 / 2 * k . covariance k.
  void logits(LayerView& view, const MeanRotation& rotation, std::int64_t kv_head,
              std::int64_t head, std::size_t sinks) {
    const auto d = static_cast<std::size_t>(view.head_dim);
    const auto mean = view.query_mean(head);
    mean_.assign(mean.begin(), mean.end());
    rotation.apply(mean_.data(), 1);
    const auto keys = view.keys(kv_head).subspan(sinks * d);
    logits_.assign(keys.size() / d, 0.0);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      logits_[i / d] += view.scale * mean_[i % d] * static_cast<double>(keys[i]);
    }
    if (by_covariance_) add_covariance(view, rotation, head, keys);
  }

  void add_covariance(LayerView& view, const MeanRotation& rotation, std::int64_t head,
                      std::span<const float> keys) {
    const auto d = static_cast<std::size_t>(view.head_dim);
    const auto covariance = view.query_covariance(head);
    covariance_.assign(covariance.begin(), covariance.end());
    for (std::size_t i = 0; i < d; ++i) rotation.apply(covariance_.data() + i * d, 1);
    for (std::size_t i = 0; i < d; ++i) rotation.apply(covariance_.data() + i, d);
    const auto width = static_cast<std::size_t>(tile::padded(view.head_dim));
    right_.assign(d * width, 0.0f);
    for (std::size_t i = 0; i < d * d; ++i) {
      right_[i / d * width + i % d] = static_cast<float>(covariance_[i]);
    }
    product_.resize(logits_.size() * width);
    tile::product({.a = keys.data(),
                   .a_row = view.head_dim,
                   .a_inner = 1,
                   .b = right_.data(),
                   .c = product_.data(),
                   .n_rows = static_cast<std::int64_t>(logits_.size()),
                   .n_inner = view.head_dim,
                   .n_columns = static_cast<std::int64_t>(width),
                   .accumulate = false});
    for (std::size_t row = 0; row < logits_.size(); ++row) {
      double quadratic = 0.0;
      for (std::size_t i = 0; i < d; ++i) {
        quadratic +=
            static_cast<double>(keys[row * d + i]) * static_cast<double>(product_[row * width + i]);
      }
      logits_[row] += 0.5 * view.scale * view.scale * quadratic;
    }
  }

  void add_softmax(double factor, std::span<double> rated) const {
    const double largest = *std::max_element(logits_.begin(), logits_.end());
    double sum = 0.0;
    for (const double x : logits_) sum += std::exp(x - largest);
    for (std::size_t i = 0; i < rated.size(); ++i) {
      rated[i] += factor * std::exp(logits_[i] - largest) / sum;
    }
  }

  void scale_by_values(LayerView& view, std::int64_t kv_head, std::size_t sinks,
                       std::span<double> rated) const {
    const auto d = static_cast<std::size_t>(view.head_dim);
    const auto values = view.values(kv_head).subspan(sinks * d);
    for (std::size_t i = 0; i < rated.size(); ++i) {
      double squares = 0.0;
      for (const float x : values.subspan(i * d, d)) squares += static_cast<double>(x) * x;
      rated[i] = (rated[i] + epsilon_) * std::sqrt(squares);
    }
  }

  std::int64_t future_;
  std::int64_t sinks_;
  double epsilon_;
  bool by_covariance_;
  bool by_value_;
  bool by_slot_;  // rotary positions are slots, and the next query's is the cache's length
  std::vector<double> mean_;        // [head_dim]
  std::vector<double> covariance_;  // [head_dim, head_dim]
  std::vector<double> logits_;      // [length - sinks]
  std::vector<float> right_;        // [head_dim, padded head_dim]
  std::vector<float> product_;      // [length - sinks, padded head_dim]
};

std::unique_ptr<Scorer> make_scorer(const PolicyOptions& options) {
  return std::make_unique<ExpectedAttentionScorer>(options);
}

std::unique_ptr<EvictionPolicy> make(const PolicyOptions& options) {
  return make_scored_policy(options, make_scorer(options));
}

}  // namespace

PolicyInfo expected_attention_policy() {
  return {"expected_attention",
          "expected_attention:capacity=1024",
          "keeps what later queries can be expected to attend to",
          "Expected Attention (arXiv:2510.00636), section 3",
          kOptions,
          make,
          make_scorer};
}

}  // namespace kvbench
