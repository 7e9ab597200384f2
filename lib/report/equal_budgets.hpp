// Whether policies that stand side by side held as many entries as one another. The budget that a
// policy is given says little: one adds its window on top of it, another counts it in.
#pragma once

#include <optional>
#include <string>

#include "report/report_groups.hpp"
#include "report/result_set.hpp"

namespace kvbench {

// What is wrong with a table of these runs: the first two of equal settings and equal budgets of
// which one held over 1 % more entries (the metric kept_mean) than the other. Absent where none do.
std::optional<std::string> unequal_budgets(const ResultSet& results);

// ConfigError with that.
void require_equal_budgets(const ResultSet& results);

// The same run measured twice must have held as much: what is wrong with holding `b` against `a`.
std::optional<std::string> unequal_budgets(const ResultRun& a, const ResultRun& b);

}  // namespace kvbench
