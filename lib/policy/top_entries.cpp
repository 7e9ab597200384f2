// keep_best by partial sorting of slots.
#include "policy/top_entries.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
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

namespace {

// All but one, as at each step of decoding, without sorting. Returns the ties at the cut.
std::int64_t drop_worst(std::span<const double> scores, std::int32_t first,
                        std::vector<std::int32_t>& kept) {
  std::size_t worst = 0;
  double next = std::numeric_limits<double>::infinity();  // the lowest score of the others
  for (std::size_t i = 1; i < scores.size(); ++i) {
    if (scores[i] <= scores[worst]) {
      next = scores[worst];
      worst = i;
    } else {
      next = std::min(next, scores[i]);
    }
  }
  const auto slot = first + static_cast<std::int32_t>(worst);
  keep_run(first, slot, kept);
  keep_run(slot + 1, first + std::ssize(scores), kept);
  return scores[worst] == next ? 1 : 0;
}

}  // namespace

std::int64_t keep_best(std::span<const double> scores, std::int64_t count, std::int32_t first,
                       std::int64_t layer, std::int64_t kv_head, std::vector<std::int32_t>& kept) {
  const auto n = static_cast<std::int64_t>(scores.size());
  refuse_nan(scores, first, layer, kv_head);
  const std::int64_t chosen = std::clamp<std::int64_t>(count, 0, n);
  if (chosen > 0 && chosen == n - 1) return drop_worst(scores, first, kept);
  // Sorted where they are to be left, so that no memory is asked for at each step.
  const auto begin = std::ssize(kept);
  kept.resize(static_cast<std::size_t>(begin + n));
  const auto order = kept.begin() + begin;
  std::iota(order, kept.end(), 0);
  const auto score = [&](std::int32_t i) { return scores[static_cast<std::size_t>(i)]; };
  std::nth_element(order, order + chosen, kept.end(), [&](std::int32_t a, std::int32_t b) {
    return score(a) != score(b) ? score(a) > score(b) : a < b;
  });
  const auto end = order + chosen;
  std::sort(order, end);
  std::int64_t ties = 0;
  if (chosen > 0 && chosen < n) {
    double worst = score(*order);
    std::int64_t at_worst = 0;
    std::for_each(order, end, [&](std::int32_t i) { worst = std::min(worst, score(i)); });
    std::for_each(order, end, [&](std::int32_t i) { at_worst += score(i) == worst ? 1 : 0; });
    ties = std::count(scores.begin(), scores.end(), worst) - at_worst;
  }
  std::for_each(order, end, [&](std::int32_t& i) { i += first; });
  kept.resize(static_cast<std::size_t>(begin + chosen));
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
