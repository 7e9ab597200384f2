// Table of tasks, in the order in which help shows them.
#include <fmt/format.h>

#include <string>

#include "core/error.hpp"
#include "core/nearest_name.hpp"
#include "task/task.hpp"

namespace kvbench {

// Each is defined in the file of that name.
TaskInfo attention_task();
TaskInfo hitrate_task();
TaskInfo ppl_task();
TaskInfo qa_task();
TaskInfo bench_task();
TaskInfo needle_task();

std::span<const TaskInfo> tasks() {
  static const TaskInfo kTable[] = {
      ppl_task(), hitrate_task(), attention_task(), needle_task(), qa_task(), bench_task(),
  };
  return kTable;
}

const TaskInfo& find_task(std::string_view name) {
  std::vector<std::string> known;
  for (const TaskInfo& info : tasks()) {
    if (info.name == name) return info;
    known.emplace_back(info.name);
  }
  const std::string nearest = nearest_name(name, known);
  config_error("unknown task '{}'{}; known: {}", name,
               nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest),
               fmt::join(known, ", "));
}

}  // namespace kvbench
