// Choosing the best entries by score, the same way on every backend: score descending, then lower
// position. NaN is an error.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/eviction_policy.hpp"

namespace kvbench {

// DataError that names layer, KV head and slot of the first NaN; scores belong to the slots from
// `first` on.
void refuse_nan(std::span<const double> scores, std::int32_t first, std::int64_t layer,
                std::int64_t kv_head);

// Appends to `kept` the `count` best of slots [first, first + scores.size()), ascending; all of
// them when there are no more. DataError names layer, KV head and slot of a NaN.
// Returns how many further slots tie with the last one chosen.
std::int64_t keep_best(std::span<const double> scores, std::int64_t count, std::int32_t first,
                       std::int64_t layer, std::int64_t kv_head, std::vector<std::int32_t>& kept);

// An entry of any layer, for a choice among all of them.
struct ScoredEntry {
  double score;
  std::int32_t position;
  std::int32_t layer;
  std::int32_t kv_head;
  std::int32_t slot;
};
// Appends the slots of the `count` best to keep[layer][kv_head], ascending: score descending, then
// lower position, layer and KV head. DataError for a NaN. Reorders `entries`.
// Returns how many further entries tie with the last one chosen.
std::int64_t keep_best_of_model(std::span<ScoredEntry> entries, std::int64_t count,
                                std::span<KeepList> keep);

// Appends slots [first, last).
void keep_run(std::int64_t first, std::int64_t last, std::vector<std::int32_t>& kept);

}  // namespace kvbench
