// share_budget over the heads' sorted entries.
#include "policy/head_budgets.hpp"

#include <algorithm>

#include "policy/top_entries.hpp"

namespace kvbench {
namespace {

struct Candidate {
  double score;
  std::int64_t slot;
  std::size_t head;
};

bool better(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.slot != b.slot ? a.slot < b.slot : a.head < b.head;
}

std::vector<Candidate> sorted_head(const std::vector<double>& scores, std::size_t head) {
  std::vector<Candidate> sorted;
  for (std::size_t slot = 0; slot < scores.size(); ++slot) {
    sorted.push_back({scores[slot], static_cast<std::int64_t>(slot), head});
  }
  std::sort(sorted.begin(), sorted.end(), better);
  return sorted;
}

}  // namespace

HeadBudgets share_budget(std::span<const std::vector<double>> scores, std::int64_t total,
                         std::int64_t floor, std::int64_t layer) {
  HeadBudgets budgets;
  std::vector<Candidate> open;
  std::int64_t left = total;
  for (std::size_t head = 0; head < scores.size(); ++head) {
    refuse_nan(scores[head], 0, layer, static_cast<std::int64_t>(head));
    const std::vector<Candidate> sorted = sorted_head(scores[head], head);
    const auto safe = std::min(floor, static_cast<std::int64_t>(sorted.size()));
    budgets.entries.push_back(safe);
    left -= safe;
    open.insert(open.end(), sorted.begin() + safe, sorted.end());
  }
  const auto n_open = static_cast<std::int64_t>(open.size());
  const std::int64_t chosen = std::clamp<std::int64_t>(left, 0, n_open);
  std::sort(open.begin(), open.end(), better);
  for (std::int64_t i = 0; i < chosen; ++i) {
    ++budgets.entries[open[static_cast<std::size_t>(i)].head];
  }
  if (chosen == 0) return budgets;
  const double worst = open[static_cast<std::size_t>(chosen - 1)].score;
  for (std::int64_t i = chosen; i < n_open; ++i) {
    if (open[static_cast<std::size_t>(i)].score != worst) break;
    ++budgets.ties_at_cut;
  }
  return budgets;
}

}  // namespace kvbench
