// Definition of policy_runs.hpp.
#include "task/policy_runs.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

namespace kvbench {

std::vector<RunRecord> run_full_first(const std::vector<ConfiguredPolicy>& policies,
                                      TaskContext& context, const PolicyRun& task) {
  std::vector<std::size_t> order(policies.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return policies[i].name == "full"; });
  std::vector<std::optional<RunRecord>> records(policies.size());
  for (const std::size_t i : order) {
    RunRecord record = task.describe(policies[i]);
    if (const IndexEntry* done = context.find_done(record)) {
      task.done(policies[i], *done);
      continue;
    }
    task.run(policies[i], record);
    context.finish(record);
    records[i] = std::move(record);
  }
  std::vector<RunRecord> finished;
  for (std::optional<RunRecord>& record : records) {
    if (record) finished.push_back(std::move(*record));
  }
  return finished;
}

}  // namespace kvbench
