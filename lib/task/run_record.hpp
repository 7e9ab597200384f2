// What the record of every task says of one policy on one model, whatever is measured.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "backend/backend.hpp"
#include "core/error.hpp"
#include "model/model.hpp"
#include "policy/registry.hpp"
#include "report/record.hpp"
#include "task/run_settings.hpp"
#include "task/token_source.hpp"

namespace kvbench {

inline constexpr const char* kNothingQuantised =
    "--kv kivi quantised nothing: the numbers are those of its full-precision rows";

// The settings that can change the numbers of any task: task, model, policy, dtypes, seed, ... A
// task adds its own before it calls start_record().
nlohmann::ordered_json run_config(std::string_view task, const RunSettings& settings,
                                  const ConfiguredPolicy& configured, const Model& model);

// Adds what says which text was read and how: data_sha256, max_tokens, bos, specials, newline.
void add_text_config(const TokenRequest& request, const TokenSource& source,
                     nlohmann::ordered_json& config);

// Everything but the data and the results. `config` is hashed here.
RunRecord start_record(const nlohmann::ordered_json& config, const RunSettings& settings,
                       const ConfiguredPolicy& configured, const Model& model,
                       const Backend& backend);

// The text that was read, and its warnings.
void note_data(const TokenSource& source, RunRecord& record);

// An error record: `metric`, the task's headline number, is null with the reason.
void mark_failed(RunRecord& record, const Error& error, const std::string& metric);

// Does the work; a failure, running out of memory too, makes an error record. Whether it succeeded.
bool run_guarded(RunRecord& record, const std::string& metric, const std::function<void()>& work);

// A policy other than `full` that evicted nothing is a warning in the record, and a ConfigError if
// `strict`.
void note_idle(std::int64_t evicted, const ConfiguredPolicy& configured, bool strict,
               RunRecord& record);

// DeviceError where `bytes` are more than this process may use. `what` begins the message, as in
// "the cache of 5 tokens needs".
void check_fits(std::int64_t bytes, const std::string& what);

}  // namespace kvbench
