// Where attention goes: the mean share that each layer's query heads pay to the first entries, to
// the newest and to the rest, its entropy, and the mean map of a text's beginning.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvbench {

struct ProfileOptions {
  std::int64_t first = 4;    // entries that count as sinks
  std::int64_t recent = 64;  // newest entries, the query's own included, that are no sinks
  std::int64_t map = 64;     // queries and keys of the map
  std::int64_t after = 0;    // queries behind this position count
};

// Sums over queries, or over heads too.
struct AttentionShares {
  double first_one = 0.0;
  double first = 0.0;
  double recent = 0.0;
  double rest = 0.0;
  double entropy = 0.0;  // nat
  std::int64_t rows = 0;

  void add(const AttentionShares& other);
  AttentionShares mean() const;  // rows: 1
};

class AttentionProfile {
 public:
  AttentionProfile(std::int64_t n_layers, std::int64_t n_heads, const ProfileOptions& options);

  // weights: of the query at position weights.size() - 1 over all entries up to its own. Shares are
  // of their sum, which is below 1 where the softmax is off by one.
  void add(std::int64_t layer, std::int64_t head, std::span<const float> weights);

  std::int64_t n_layers() const { return n_layers_; }
  std::int64_t n_heads() const { return n_heads_; }
  const AttentionShares& head(std::int64_t layer, std::int64_t head) const;
  AttentionShares layer(std::int64_t layer) const;
  AttentionShares all() const;
  // One for each query that counts, over all layers and heads.
  const std::vector<AttentionShares>& queries() const { return queries_; }
  // Row q of a layer's map, averaged over its heads: [q + 1]; empty where no such query was there.
  std::span<const double> map_row(std::int64_t layer, std::int64_t query) const;

 private:
  void add_to_map(std::int64_t layer, std::span<const float> weights, double total);

  std::int64_t n_layers_;
  std::int64_t n_heads_;
  ProfileOptions options_;
  std::vector<AttentionShares> heads_;    // [n_layers * n_heads]
  std::vector<AttentionShares> queries_;  // [queries that count]
  std::vector<std::vector<double>> map_;  // [n_layers * map]
};

}  // namespace kvbench
