// What runs of tasks share: the loaded model, records that are there already, and where new ones
// go. One context serves all cells of a sweep, so that equal models are loaded once.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "backend/backend.hpp"
#include "backend/profiling_backend.hpp"
#include "model/model.hpp"
#include "report/record.hpp"
#include "report/record_store.hpp"
#include "task/run_settings.hpp"
#include "task/text_reader.hpp"
#include "task/token_source.hpp"

namespace kvbench {

struct LoadedModel {
  std::unique_ptr<Backend> backend;
  std::optional<Model> model;
  double load_seconds = 0.0;
};

class TaskContext {
 public:
  bool quiet = false;    // no progress line
  bool profile = false;  // records say which operations the time went to
  // Where records go as soon as they are whole; may be empty.
  std::function<void(const RunRecord&)> on_record;
  // Runs that are done already, and are not run again; null: none.
  const IndexContents* done = nullptr;
  // Told of each of these that a run asked for; may be empty.
  std::function<void(const IndexEntry&)> on_done;

  // The model of these settings as Model::open leaves it, and its backend: those opened last, if
  // they are the same. The reference holds until a call for others.
  LoadedModel& open(const RunSettings& settings);
  // The same with its weights, which only those who run it need.
  LoadedModel& load(const RunSettings& settings);

  // As read_tokens(); each text is read and tokenized once per context.
  TokenSource tokens(const TokenRequest& request, const std::filesystem::path& model_directory);

  // The finished run of that configuration, if there is one.
  const IndexEntry* find_done(const RunRecord& record) const {
    const IndexEntry* found = done == nullptr ? nullptr : done->find_ok(record.config_hash);
    if (found != nullptr && on_done) on_done(*found);
    return found;
  }
  // The record is whole, but for the profile of what was run since the last one.
  void finish(RunRecord& record);

 private:
  std::string model_key_;
  LoadedModel model_;
  ProfilingBackend* profiler_ = nullptr;  // the model's backend, where `profile` is asked for
  std::map<std::string, TextReader> texts_;
};

// A number of an index line, such as its "ppl".
std::optional<double> number_in_row(const IndexEntry& entry, const std::string& key);

}  // namespace kvbench
