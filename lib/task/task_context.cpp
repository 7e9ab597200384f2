// Definitions of task_context.hpp.
#include "task/task_context.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "backend/registry.hpp"
#include "core/clock.hpp"

namespace kvbench {

LoadedModel& TaskContext::load(const RunSettings& settings) {
  const std::string key = fmt::format(
      "{}\n{}\n{}\n{}\n{}\n{}", settings.model, settings.sinks.tensor, settings.sinks.file.string(),
      dtype_name(settings.dtype), settings.backend, settings.threads);
  if (key == loaded_key_) return loaded_;
  loaded_key_.clear();
  loaded_.model.reset();  // before the next one is read: two may not fit
  loaded_.backend.reset();
  const auto start = Clock::now();
  loaded_.backend = make_backend(settings.backend, settings.threads);
  loaded_.model.emplace(settings.load_model(*loaded_.backend));
  loaded_.load_seconds = seconds_since(start);
  loaded_key_ = key;
  return loaded_;
}

std::optional<double> number_in_row(const IndexEntry& entry, const std::string& key) {
  const auto row = nlohmann::json::parse(entry.row_json);
  const auto found = row.find(key);
  if (found == row.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

}  // namespace kvbench
