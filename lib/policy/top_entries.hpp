// Choosing the best entries by score, the same way on every backend: score descending, then lower
// position. NaN is an error.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

// Appends slots [first, last).
void keep_run(std::int64_t first, std::int64_t last, std::vector<std::int32_t>& kept);

}  // namespace kvbench
