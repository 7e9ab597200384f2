// Runs of one task on one model and one text under the same settings stand together in a report:
// what differs within a group is the policy (and the seed, and how the cache is stored).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "report/console_reporter.hpp"
#include "report/result_set.hpp"

namespace kvbench {

struct GroupedRun {
  const ResultRun* run = nullptr;
  std::string label;             // the policy, and what else differs within the group
  std::string family;            // name of the policy without its options
  std::string series;            // family, and options other than those that set the budget
  std::optional<double> budget;  // entries kept per KV head; absent for `full`
};

struct ReportGroup {
  std::string task;
  std::string model;  // last part of the checkpoint's path
  std::string data;
  std::vector<std::pair<std::string, std::string>> settings;  // the same for all runs
  std::vector<ReportColumn> columns;
  std::vector<GroupedRun> runs;
};

// The table of a task; empty for a task that is not known: then all metrics are shown.
using ColumnsOfTask = std::function<std::span<const ReportColumn>(const std::string& task)>;

// In order of first appearance. Refers to the runs, which must outlive the groups.
std::vector<ReportGroup> group_runs(const ResultSet& results, const ColumnsOfTask& columns);

}  // namespace kvbench
