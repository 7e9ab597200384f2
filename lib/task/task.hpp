// A task: one measurement, such as perplexity, that a subcommand or a cell of a sweep asks for. Its
// settings, help, command line and JSON keys follow from one declaration. A new task is one file
// like ppl_task.cpp and a row in registry.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "config/setting_set.hpp"
#include "report/console_reporter.hpp"
#include "report/record.hpp"
#include "task/task_context.hpp"

namespace kvbench {

// What a run will take, as far as the request tells before anything large is loaded.
struct TaskEstimate {
  std::int64_t tokens = 0;         // through the model, over all policies
  std::int64_t prompt_tokens = 0;  // of these, those of prompts, where they are timed apart
  std::int64_t single_tokens = 0;  // of these, those that must be fed one at a time
  std::int64_t kv_bytes = 0;       // of the largest cache
};

class Task {
 public:
  virtual ~Task() = default;

  // Binds the settings to fields of the task. Called once, before any is set.
  virtual void declare(SettingSet& settings) = 0;

  // ConfigError for a request that cannot be right, whatever model and data hold. Loads neither.
  virtual void check() = 0;

  // Reads config.json and the text, not the weights.
  virtual TaskEstimate estimate(TaskContext& context) = 0;

  // One record for each policy, handed to the context as soon as it is whole, and returned in the
  // order of the request; those that the context has already are left out. A failure of one policy
  // is an error record; what concerns all of them is thrown.
  virtual std::vector<RunRecord> run(TaskContext& context) = 0;
};

struct TaskInfo {
  std::string_view name;
  std::string_view summary;
  std::string_view examples;  // for help
  std::unique_ptr<Task> (*make)();
  std::span<const ReportColumn> columns;  // of its table
};

std::span<const TaskInfo> tasks();
// ConfigError for an unknown name, with the nearest one.
const TaskInfo& find_task(std::string_view name);

}  // namespace kvbench
