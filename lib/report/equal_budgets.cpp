// Definitions of report/equal_budgets.hpp.
#include "report/equal_budgets.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "config/policy_spec.hpp"
#include "core/error.hpp"

namespace kvbench {
namespace {

constexpr double kAllowedDifference = 0.01;
constexpr const char* kKept = "kept_mean";

// "256 entries" or "a share of 0.25"; empty where nothing bounds the policy.
std::string budget_text(const GroupedRun& run) {
  if (run.budget) return fmt::format("{:.0f} entries", *run.budget);
  try {
    for (const auto& [key, value] : parse_policy(run.run->policy).options) {
      if (key == "keep") return "a share of " + value;
    }
  } catch (const ConfigError&) {
    return "";  // of another version, which wrote policies in another way
  }
  return "";
}

bool differ(double a, double b) {
  return std::abs(a - b) > kAllowedDifference * std::max(a, b);
}

}  // namespace

std::optional<std::string> unequal_budgets(const ResultSet& results) {
  for (const ReportGroup& group :
       group_runs(results, [](const std::string&) { return std::span<const ReportColumn>(); })) {
    for (auto second = group.runs.begin(); second != group.runs.end(); ++second) {
      const std::string budget = budget_text(*second);
      const auto kept = second->run->metric(kKept);
      if (budget.empty() || !kept) continue;
      for (auto first = group.runs.begin(); first != second; ++first) {
        const auto other = first->run->metric(kKept);
        if (!other || budget_text(*first) != budget || !differ(*other, *kept)) continue;
        return fmt::format(
            "{} '{}' and '{}' have the same budget, {}, but held {:.1f} and {:.1f} entries per "
            "layer and KV head",
            group.task, first->label, second->label, budget, *other, *kept);
      }
    }
  }
  return std::nullopt;
}

void require_equal_budgets(const ResultSet& results) {
  if (const auto fault = unequal_budgets(results)) {
    config_error("{}: one table would compare what is not alike (--allow-unequal makes it)",
                 *fault);
  }
}

std::optional<std::string> unequal_budgets(const ResultRun& a, const ResultRun& b) {
  const auto before = a.metric(kKept);
  const auto now = b.metric(kKept);
  if (!before || !now || !differ(*before, *now)) return std::nullopt;
  return fmt::format("{} '{}' held {:.1f} entries per layer and KV head in A, and {:.1f} in B",
                     a.task, a.policy, *before, *now);
}

}  // namespace kvbench
