// Definitions of task_context.hpp.
#include "task/task_context.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backend/registry.hpp"
#include "core/clock.hpp"
#include "task/op_shares.hpp"

namespace kvbench {

LoadedModel& TaskContext::open(const RunSettings& settings) {
  const std::string key =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}", settings.model, settings.sinks.tensor,
                  settings.sinks.file.string(), dtype_name(settings.dtype), settings.backend,
                  fmt::join(settings.devices, ","), settings.threads);
  if (key == model_key_) return model_;
  model_key_.clear();
  profiler_ = nullptr;
  model_.model.reset();  // before the next one is read: two may not fit
  model_.backend.reset();
  const auto start = Clock::now();
  model_.backend = make_backend(settings.backend, settings.threads, settings.devices);
  if (profile) {
    auto profiler = std::make_unique<ProfilingBackend>(std::move(model_.backend));
    profiler_ = profiler.get();
    model_.backend = std::move(profiler);
  }
  model_.model.emplace(Model::open(settings.model, settings.sinks));
  model_.load_seconds = seconds_since(start);
  model_key_ = key;
  return model_;
}

LoadedModel& TaskContext::load(const RunSettings& settings) {
  LoadedModel& opened = open(settings);
  if (opened.model->has_weights()) return opened;
  const auto start = Clock::now();
  opened.model->load_weights(*opened.backend, settings.dtype);
  opened.load_seconds += seconds_since(start);
  if (profiler_ != nullptr) profiler_->clear();
  return opened;
}

TokenSource TaskContext::tokens(const TokenRequest& request,
                                const std::filesystem::path& model_directory) {
  if (request.data.empty()) return read_tokens(request, model_directory);
  const std::string key =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", request.data, request.bos,
                  newline_name(request.corpus.newline), request.corpus.strip_bom,
                  request.corpus.max_documents, static_cast<int>(request.specials),
                  static_cast<int>(request.invalid_utf8), model_directory.string());
  auto found = texts_.find(key);
  if (found == texts_.end()) {
    found = texts_.emplace(key, TextReader(request, model_directory)).first;
  }
  return found->second.first_tokens(request.max_tokens);
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
