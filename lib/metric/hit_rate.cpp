// Definitions of hit_rate.hpp.
#include "metric/hit_rate.hpp"

#include <algorithm>
#include <numeric>

#include "core/error.hpp"
#include "core/stats.hpp"

namespace kvbench {
namespace {

std::optional<double> ratio(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

double sum_of(std::span<const float> values) {
  double sum = 0.0;
  for (const float value : values) sum += static_cast<double>(value);
  return sum;
}

}  // namespace

bool KeptSet::contains(std::int64_t position) const {
  return position >= all_from || std::binary_search(positions.begin(), positions.end(), position);
}

std::vector<std::int32_t> KeptSet::before(std::int64_t end) const {
  const auto last = std::lower_bound(positions.begin(), positions.end(), end);
  std::vector<std::int32_t> all(positions.begin(), last);
  for (std::int64_t i = all_from; i < end; ++i) all.push_back(static_cast<std::int32_t>(i));
  return all;
}

AttentionRow::AttentionRow(const HitRateOptions& options)
    : least_theta_(*std::min_element(options.thetas.begin(), options.thetas.end())),
      top_k_(static_cast<std::size_t>(options.top_k)) {}

void AttentionRow::read(std::span<const float> weights, std::int64_t counted) {
  KVB_CHECK(counted <= std::ssize(weights), "{} positions of {}", counted, weights.size());
  weights_ = weights;
  counted_ = counted;
  const auto inside = weights.first(static_cast<std::size_t>(counted));
  counted_total_ = sum_of(inside);
  total_ = counted_total_ + sum_of(weights.subspan(inside.size()));
  large_.clear();
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (static_cast<double>(inside[i]) > least_theta_) {
      large_.push_back(static_cast<std::int32_t>(i));
    }
  }
  top_.resize(inside.size());
  std::iota(top_.begin(), top_.end(), 0);
  if (top_k_ >= top_.size()) return;
  const auto before = [inside](std::int32_t a, std::int32_t b) {
    const float x = inside[static_cast<std::size_t>(a)];
    const float y = inside[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  };
  std::nth_element(top_.begin(), top_.begin() + static_cast<std::ptrdiff_t>(top_k_), top_.end(),
                   before);
  top_.resize(top_k_);
}

void HitCounts::add(const HitCounts& other) {
  hits += other.hits;
  large += other.large;
  hits_after_sinks += other.hits_after_sinks;
  large_after_sinks += other.large_after_sinks;
  empty_steps += other.empty_steps;
}

std::optional<double> HitCounts::rate() const {
  return ratio(hits, large);
}
std::optional<double> HitCounts::rate_after_sinks() const {
  return ratio(hits_after_sinks, large_after_sinks);
}

void HeadHits::add(const HeadHits& other) {
  counts.resize(std::max(counts.size(), other.counts.size()));
  for (std::size_t i = 0; i < other.counts.size(); ++i) counts[i].add(other.counts[i]);
  steps += other.steps;
  kept_mass += other.kept_mass;
  counted_kept += other.counted_kept;
  counted_all += other.counted_all;
  top_shared += other.top_shared;
}

double HeadHits::mass_recall() const {
  return kept_mass / static_cast<double>(steps);
}
std::optional<double> HeadHits::counted_recall() const {
  if (counted_all <= 0.0) return std::nullopt;
  return counted_kept / counted_all;
}
double HeadHits::top_overlap() const {
  return top_shared / static_cast<double>(steps);
}

HitMeter::HitMeter(std::int64_t n_layers, std::int64_t n_heads, const HitRateOptions& options)
    : n_layers_(n_layers),
      n_heads_(n_heads),
      options_(options),
      heads_(static_cast<std::size_t>(n_layers * n_heads)) {}

void HitMeter::add(std::int64_t layer, std::int64_t head, std::int64_t step,
                   const AttentionRow& row, const KeptSet& kept) {
  HeadHits found;
  found.steps = 1;
  for (const double theta : options_.thetas) {
    HitCounts& counts = found.counts.emplace_back();
    for (const std::int32_t position : row.large()) {
      if (static_cast<double>(row.weights()[static_cast<std::size_t>(position)]) <= theta) continue;
      const bool after_sinks = position >= options_.sinks;
      const bool hit = kept.contains(position);
      ++counts.large;
      counts.hits += hit ? 1 : 0;
      counts.large_after_sinks += after_sinks ? 1 : 0;
      counts.hits_after_sinks += hit && after_sinks ? 1 : 0;
    }
    counts.empty_steps = counts.large == 0 ? 1 : 0;
  }
  // Sums in the order of row.total(), so that a policy which keeps everything has exactly 1.
  const auto weights = row.weights();
  const auto from = static_cast<std::size_t>(
      std::min<std::int64_t>(kept.all_from, static_cast<std::int64_t>(weights.size())));
  double counted_kept = 0.0;
  double later_kept = 0.0;
  for (const std::int32_t position : kept.positions) {
    const double weight = static_cast<double>(weights[static_cast<std::size_t>(position)]);
    (position < row.counted() ? counted_kept : later_kept) += weight;
  }
  const auto counted = static_cast<std::size_t>(row.counted());
  const std::size_t inside = std::min(from, counted);
  counted_kept +=
      inside == 0 ? row.counted_total() : sum_of(weights.subspan(inside, counted - inside));
  later_kept += sum_of(weights.subspan(std::max(from, counted)));
  found.counted_kept = counted_kept;
  found.counted_all = row.counted_total();
  found.kept_mass = row.total() > 0.0 ? (counted_kept + later_kept) / row.total() : 1.0;
  std::int64_t shared = 0;
  for (const std::int32_t position : row.top()) shared += kept.contains(position) ? 1 : 0;
  found.top_shared = static_cast<double>(shared) / static_cast<double>(row.top().size());
  heads_[static_cast<std::size_t>(layer * n_heads_ + head)].add(found);
  if (step >= steps()) by_step_.resize(static_cast<std::size_t>(step + 1));
  by_step_[static_cast<std::size_t>(step)].add(found);
}

const HeadHits& HitMeter::head(std::int64_t layer, std::int64_t head) const {
  return heads_[static_cast<std::size_t>(layer * n_heads_ + head)];
}

HeadHits HitMeter::layer(std::int64_t layer) const {
  HeadHits sum;
  for (std::int64_t head = 0; head < n_heads_; ++head) sum.add(this->head(layer, head));
  return sum;
}

HeadHits HitMeter::all() const {
  HeadHits sum;
  for (const HeadHits& head : heads_) sum.add(head);
  return sum;
}

std::optional<double> HitMeter::head_mean(std::size_t theta) const {
  std::vector<double> rates;
  for (const HeadHits& head : heads_) {
    if (const auto rate = head.counts[theta].rate()) rates.push_back(*rate);
  }
  if (rates.empty()) return std::nullopt;
  return mean(rates);
}

std::int64_t HitMeter::empty_heads(std::size_t theta) const {
  return std::count_if(heads_.begin(), heads_.end(),
                       [theta](const HeadHits& head) { return head.counts[theta].large == 0; });
}

// The error of a ratio of sums is that of the mean of its residuals (Cochran 1977, section 6.3).
SteppedValue HitMeter::pooled_rate(std::size_t theta) const {
  const auto rate = all().counts[theta].rate();
  if (!rate) return {};
  const double large =
      static_cast<double>(all().counts[theta].large) / static_cast<double>(steps());
  std::vector<double> residuals;
  for (const HeadHits& step : by_step_) {
    const HitCounts& counts = step.counts[theta];
    residuals.push_back(
        (static_cast<double>(counts.hits) - *rate * static_cast<double>(counts.large)) / large);
  }
  return {rate, block_bootstrap_standard_error(residuals, options_.bootstrap_block).value};
}

SteppedValue HitMeter::mass_recall() const {
  std::vector<double> series;
  for (const HeadHits& step : by_step_) series.push_back(step.mass_recall());
  return {mean(series), block_bootstrap_standard_error(series, options_.bootstrap_block).value};
}

}  // namespace kvbench
