// Hit rate of an eviction policy: of the positions of a prompt that later steps of the full cache
// attend to, how many the policy still holds. Per layer and query head, over any number of steps:
//   H = sum_t |{p : A_t(p) > theta and p in S_t}| / sum_t |{p : A_t(p) > theta}|
// Steps without such a position are left out and counted. Beside it stand the share of all
// attention that falls on kept entries, and the overlap with the top k.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kvbench {

struct HitRateOptions {
  std::vector<double> thetas{0.05};   // attention above which a position counts
  std::int64_t top_k = 32;            // largest positions of a step, for the overlap
  std::int64_t sinks = 4;             // first positions, which a second count leaves out
  std::int64_t bootstrap_block = 16;  // steps per block of the standard errors
};

// What a head of a layer holds at one step.
struct KeptSet {
  std::span<const std::int32_t> positions;  // ascending, all below all_from
  std::int64_t all_from = 0;                // these and everything after them are there

  bool contains(std::int64_t position) const;
  // All that are below `end`.
  std::vector<std::int32_t> before(std::int64_t end) const;
};

// One row of the full cache's attention: weights of a query over all positions up to its own.
// What does not depend on the policy is found once.
class AttentionRow {
 public:
  explicit AttentionRow(const HitRateOptions& options);
  // Positions [0, counted) are those that count. weights: [query position + 1]; the row refers to
  // them.
  void read(std::span<const float> weights, std::int64_t counted);

  std::span<const float> weights() const { return weights_; }
  std::int64_t counted() const { return counted_; }
  double total() const { return total_; }                         // of all weights
  double counted_total() const { return counted_total_; }         // of those that count
  std::span<const std::int32_t> large() const { return large_; }  // above the smallest theta
  std::span<const std::int32_t> top() const { return top_; }      // the k largest, in no order

 private:
  double least_theta_;
  std::size_t top_k_;
  std::span<const float> weights_;
  std::int64_t counted_ = 0;
  double total_ = 0.0;
  double counted_total_ = 0.0;
  std::vector<std::int32_t> large_, top_;
};

// Counts of one layer's query head (or of several, added up) for one theta.
struct HitCounts {
  std::int64_t hits = 0;
  std::int64_t large = 0;
  std::int64_t hits_after_sinks = 0;
  std::int64_t large_after_sinks = 0;
  std::int64_t empty_steps = 0;

  void add(const HitCounts& other);
  std::optional<double> rate() const;  // absent where nothing was above theta
  std::optional<double> rate_after_sinks() const;
};

struct HeadHits {
  std::vector<HitCounts> counts;  // [thetas]
  std::int64_t steps = 0;
  double kept_mass = 0.0;     // sum over steps of the share of attention on what is kept
  double counted_kept = 0.0;  // attention on what is kept, of the positions that count
  double counted_all = 0.0;   // attention on them
  double top_shared = 0.0;    // sum over steps of the share of the top k that is kept

  void add(const HeadHits& other);
  double mass_recall() const;
  std::optional<double> counted_recall() const;
  double top_overlap() const;
};

// A ratio or mean over steps, with a standard error by block bootstrap over them.
struct SteppedValue {
  std::optional<double> value;
  std::optional<double> standard_error;
};

class HitMeter {
 public:
  HitMeter(std::int64_t n_layers, std::int64_t n_heads, const HitRateOptions& options);

  // Steps are numbered from 0, over all texts.
  void add(std::int64_t layer, std::int64_t head, std::int64_t step, const AttentionRow& row,
           const KeptSet& kept);

  const HitRateOptions& options() const { return options_; }
  std::int64_t n_layers() const { return n_layers_; }
  std::int64_t n_heads() const { return n_heads_; }
  std::int64_t steps() const { return static_cast<std::int64_t>(by_step_.size()); }
  const HeadHits& head(std::int64_t layer, std::int64_t head) const;
  HeadHits layer(std::int64_t layer) const;
  HeadHits all() const;
  // Mean over those heads that have a rate.
  std::optional<double> head_mean(std::size_t theta) const;
  // Heads for which every step was empty.
  std::int64_t empty_heads(std::size_t theta) const;
  SteppedValue pooled_rate(std::size_t theta) const;
  SteppedValue mass_recall() const;

 private:
  std::int64_t n_layers_;
  std::int64_t n_heads_;
  HitRateOptions options_;
  std::vector<HeadHits> heads_;    // [n_layers * n_heads]
  std::vector<HeadHits> by_step_;  // each over all layers and heads
};

}  // namespace kvbench
