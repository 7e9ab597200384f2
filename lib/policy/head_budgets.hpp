// Dividing a layer's budget over its KV heads by score, so that heads with more entries worth
// keeping keep more (Ada-KV, arXiv:2407.11550, algorithm 1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvbench {

struct HeadBudgets {
  std::vector<std::int64_t> entries;  // [n_kv_heads], sum: total, or all there are
  std::int64_t ties_at_cut = 0;       // entries that tie with the last one that stays
};

// Each head is given its `floor` best entries; the rest of `total` goes to the best of all others:
// score descending, then lower slot, then lower head. DataError for a NaN.
// scores: [n_kv_heads][length].
HeadBudgets share_budget(std::span<const std::vector<double>> scores, std::int64_t total,
                         std::int64_t floor, std::int64_t layer);

}  // namespace kvbench
