// Definitions of task_context.hpp.
#include "task/task_context.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "backend/registry.hpp"
#include "core/clock.hpp"
#include "task/op_shares.hpp"

namespace kvbench {

LoadedModel& TaskContext::load(const RunSettings& settings) {
  const std::string key = fmt::format(
      "{}\n{}\n{}\n{}\n{}\n{}", settings.model, settings.sinks.tensor, settings.sinks.file.string(),
      dtype_name(settings.dtype), settings.backend, settings.threads);
  if (key == loaded_key_) return loaded_;
  loaded_key_.clear();
  profiler_ = nullptr;
  loaded_.model.reset();  // before the next one is read: two may not fit
  loaded_.backend.reset();
  const auto start = Clock::now();
  loaded_.backend = make_backend(settings.backend, settings.threads);
  if (profile) {
    auto profiler = std::make_unique<ProfilingBackend>(std::move(loaded_.backend));
    profiler_ = profiler.get();
    loaded_.backend = std::move(profiler);
  }
  loaded_.model.emplace(settings.load_model(*loaded_.backend));
  loaded_.load_seconds = seconds_since(start);
  if (profiler_ != nullptr) profiler_->clear();
  loaded_key_ = key;
  return loaded_;
}

void TaskContext::finish(RunRecord& record) {
  if (profiler_ != nullptr) {
    if (!has_profile(record)) add_profile("profile", profiler_->profile(), record);
    profiler_->clear();
  }
  if (on_record) on_record(record);
}

std::optional<double> number_in_row(const IndexEntry& entry, const std::string& key) {
  const auto row = nlohmann::json::parse(entry.row_json);
  const auto found = row.find(key);
  if (found == row.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

}  // namespace kvbench
