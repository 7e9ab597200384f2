// The loop over policies of tasks that compare each of them with `full`.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "policy/registry.hpp"
#include "report/record.hpp"
#include "task/task_context.hpp"

namespace kvbench {

struct PolicyRun {
  // Told once which policies will run, before the first does; not where all were done earlier.
  std::function<void(std::span<const ConfiguredPolicy* const>)> begin = {};
  // Everything of the record but the results.
  std::function<RunRecord(const ConfiguredPolicy&)> describe;
  // The results.
  std::function<void(const ConfiguredPolicy&, RunRecord&)> run;
  // In place of a run: it was done earlier.
  std::function<void(const ConfiguredPolicy&, const IndexEntry&)> done;
};

// `full` first, so that the others can be compared with it; see Task::run for what comes back.
std::vector<RunRecord> run_full_first(const std::vector<ConfiguredPolicy>& policies,
                                      TaskContext& context, const PolicyRun& task);

}  // namespace kvbench
