// Definitions of task/sweep.hpp.
#include "task/sweep.hpp"

#include <fmt/core.h>

#include <exception>
#include <new>
#include <nlohmann/json.hpp>
#include <set>

#include "config/config_hash.hpp"
#include "core/error.hpp"
#include "report/json_reporter.hpp"
#include "task/run_record.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

// The record of a cell whose run could not begin: the hashes of its model and text are not known,
// so that its identity is what was asked for.
RunRecord record_of_failure(const SweepCell& cell, const Error& error) {
  Json requested = Json::object();
  for (const auto& [name, texts] : cell.settings) requested[name] = texts;
  RunRecord record;
  record.task = cell.task;
  record.started_at = utc_now();
  record.config_json =
      dump_json({{"task", cell.task}, {"policy", cell.policy}, {"requested", requested}});
  record.config_hash = config_hash_of_text(record.config_json);
  if (const SettingTexts* model = cell.find("model")) record.model_path = model->front();
  record.policy = cell.policy;
  record.environment = read_environment();
  record.ok = false;
  record.reason = error.what();
  record.exit_code = error.exit_code();
  return record;
}

class SweepRunner {
 public:
  SweepRunner(RecordStore& store, const SweepRun& options)
      : store_(store), options_(options), done_(store.read()) {
    context_.quiet = options.quiet;
    if (!options.rerun) context_.done = &done_;
    context_.on_record = [this](const RunRecord& record) { keep(record); };
    context_.on_done = [this](const IndexEntry& entry) { note_found(entry); };
  }

  SweepOutcome run(const std::vector<SweepGroup>& groups);

 private:
  void run_group(const SweepGroup& group);
  void fail_rest(const SweepGroup& group, const Error& error);
  void withdraw_failures(const SweepGroup& group);
  void keep(const RunRecord& record);
  void note_found(const IndexEntry& entry);
  template <class Write>
  void guarded(Write&& write);
  bool stopped() const { return options_.fail_fast && outcome_.failed > 0; }

  RecordStore& store_;
  const SweepRun& options_;
  IndexContents done_;
  TaskContext context_;
  SweepOutcome outcome_;
  std::set<std::string> settled_;  // policies of the present group that have a result
  std::size_t total_ = 0;
};

SweepOutcome SweepRunner::run(const std::vector<SweepGroup>& groups) {
  for (const SweepGroup& group : groups) total_ += group.cells.size();
  for (const SweepGroup& group : groups) {
    if (stopped()) break;
    run_group(group);
  }
  return outcome_;
}

void SweepRunner::run_group(const SweepGroup& group) {
  settled_.clear();
  try {
    prepare_task(group, false).task->run(context_);
    withdraw_failures(group);
  } catch (const Error& error) {
    fail_rest(group, error);
  } catch (const std::bad_alloc&) {
    fail_rest(group, DeviceError("out of memory"));
  } catch (const std::exception& error) {
    fail_rest(group, InternalError(error.what()));
  }
}

void SweepRunner::fail_rest(const SweepGroup& group, const Error& error) {
  for (const SweepCell& cell : group.cells) {
    if (!settled_.contains(cell.policy)) keep(record_of_failure(cell, error));
  }
}

// Failures to begin, of an earlier run, that no longer hold.
void SweepRunner::withdraw_failures(const SweepGroup& group) {
  for (const SweepCell& cell : group.cells) {
    const std::string hash = record_of_failure(cell, InternalError("")).config_hash;
    for (const IndexEntry& entry : done_.entries) {
      if (entry.config_hash == hash) guarded([&] { store_.withdraw(hash); });
    }
  }
}

template <class Write>
void SweepRunner::guarded(Write&& write) {
  if (options_.guard) options_.guard(true);
  write();
  if (options_.guard) options_.guard(false);
}

void SweepRunner::keep(const RunRecord& record) {
  guarded([&] { store_.write(record); });
  settled_.insert(record.policy);
  ++(record.ok ? outcome_.finished : outcome_.failed);
  if (!record.ok && outcome_.exit_code == 0) outcome_.exit_code = record.exit_code;
  if (!options_.say) return;
  options_.say(
      fmt::format("[{}/{}] {} {}: {}", outcome_.finished + outcome_.found + outcome_.failed, total_,
                  record.task, record.policy, record.ok ? "done" : "failed: " + record.reason));
}

void SweepRunner::note_found(const IndexEntry& entry) {
  settled_.insert(entry.policy);
  ++outcome_.found;
  if (!options_.say) return;
  options_.say(fmt::format("[{}/{}] {}: done before",
                           outcome_.finished + outcome_.found + outcome_.failed, total_,
                           entry.policy));
}

}  // namespace

SweepOutcome run_groups(const std::vector<SweepGroup>& groups, RecordStore& store,
                        const SweepRun& options) {
  return SweepRunner(store, options).run(groups);
}

void dry_run_groups(const std::vector<SweepGroup>& groups, const SweepRun& options) {
  TaskContext context;
  context.quiet = options.quiet;
  for (const SweepGroup& group : groups) {
    for (const RunRecord& record : prepare_task(group, true).task->run(context)) {
      if (!record.ok) {
        throw Error(record.exit_code,
                    fmt::format("{} {}: {}", record.task, record.policy, record.reason));
      }
      if (options.say) options.say(fmt::format("{} {}: runs", record.task, record.policy));
    }
  }
}

}  // namespace kvbench
