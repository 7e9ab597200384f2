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
  std::vector<const ConfiguredPolicy*> pending;
  for (const std::size_t i : order) {
    RunRecord record = task.describe(policies[i]);
    if (const IndexEntry* done = context.find_done(record)) {
      task.done(policies[i], *done);
      continue;
    }
    pending.push_back(&policies[i]);
    records[i] = std::move(record);
  }
  if (!pending.empty() && task.begin) task.begin(pending);
  for (const std::size_t i : order) {
    if (!records[i]) continue;
    records[i]->started_at = utc_now();
    task.run(policies[i], *records[i]);
    context.finish(*records[i]);
  }
  std::vector<RunRecord> finished;
  for (std::optional<RunRecord>& record : records) {
    if (record) finished.push_back(std::move(*record));
  }
  return finished;
}

}  // namespace kvbench
