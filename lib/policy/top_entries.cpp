// keep_best by partial sorting of slots.
#include "policy/top_entries.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "core/error.hpp"

namespace kvbench {

void refuse_nan(std::span<const double> scores, std::int32_t first, std::int64_t layer,
                std::int64_t kv_head) {
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (!std::isnan(scores[i])) continue;
    data_error("NaN score, layer {}, head {}, row {}", layer, kv_head,
               first + static_cast<std::int64_t>(i));
  }
}

std::int64_t keep_best(std::span<const double> scores, std::int64_t count, std::int32_t first,
                       std::int64_t layer, std::int64_t kv_head, std::vector<std::int32_t>& kept) {
  const auto n = static_cast<std::int64_t>(scores.size());
  refuse_nan(scores, first, layer, kv_head);
  const std::int64_t chosen = std::clamp<std::int64_t>(count, 0, n);
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](std::int32_t i) { return scores[static_cast<std::size_t>(i)]; };
  std::nth_element(order.begin(), order.begin() + chosen, order.end(),
                   [&](std::int32_t a, std::int32_t b) {
                     return score(a) != score(b) ? score(a) > score(b) : a < b;
                   });
  order.resize(static_cast<std::size_t>(chosen));
  std::sort(order.begin(), order.end());
  std::int64_t ties = 0;
  if (chosen > 0 && chosen < n) {
    double worst = score(order.front());
    std::int64_t at_worst = 0;
    for (const std::int32_t i : order) worst = std::min(worst, score(i));
    for (const std::int32_t i : order) at_worst += score(i) == worst ? 1 : 0;
    ties = std::count(scores.begin(), scores.end(), worst) - at_worst;
  }
  for (const std::int32_t i : order) kept.push_back(first + i);
  return ties;
}

std::int64_t keep_best_of_model(std::span<ScoredEntry> entries, std::int64_t count,
                                std::span<KeepList> keep) {
  for (const ScoredEntry& entry : entries) {
    if (std::isnan(entry.score)) {
      data_error("NaN score, layer {}, head {}, row {}", entry.layer, entry.kv_head, entry.slot);
    }
  }
  const auto chosen = static_cast<std::size_t>(
      std::clamp<std::int64_t>(count, 0, static_cast<std::int64_t>(entries.size())));
  const auto before = [](const ScoredEntry& a, const ScoredEntry& b) {
    if (a.score != b.score) return a.score > b.score;
    return std::tie(a.position, a.layer, a.kv_head) < std::tie(b.position, b.layer, b.kv_head);
  };
  std::nth_element(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(chosen),
                   entries.end(), before);
  for (const ScoredEntry& entry : entries.first(chosen)) {
    keep[static_cast<std::size_t>(entry.layer)][static_cast<std::size_t>(entry.kv_head)].push_back(
        entry.slot);
  }
  for (KeepList& layer : keep) {
    for (std::size_t kv_head = 0; kv_head < layer.size(); ++kv_head) {
      std::sort(layer[kv_head].begin(), layer[kv_head].end());
    }
  }
  if (chosen == 0) return 0;
  double worst = entries.front().score;
  for (const ScoredEntry& entry : entries.first(chosen)) worst = std::min(worst, entry.score);
  std::int64_t ties = 0;
  for (const ScoredEntry& entry : entries.subspan(chosen)) ties += entry.score == worst ? 1 : 0;
  return ties;
}

void keep_run(std::int64_t first, std::int64_t last, std::vector<std::int32_t>& kept) {
  for (std::int64_t slot = first; slot < last; ++slot) {
    kept.push_back(static_cast<std::int32_t>(slot));
  }
}

}  // namespace kvbench
