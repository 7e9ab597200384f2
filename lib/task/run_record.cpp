// Definitions of run_record.hpp.
#include "task/run_record.hpp"

#include <new>
#include <nlohmann/json.hpp>

#include "config/config_hash.hpp"
#include "report/json_reporter.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

Json options_json(const ConfiguredPolicy& configured) {
  Json options = Json::object();
  for (const auto& [key, value] : configured.options) options[key] = value;
  return options;
}

// {"kind": "kivi", "bits": 2, ...}, and when rows are quantised.
Json kivi_json(const KiviOptions& options) {
  return {{"kind", "kivi"},
          {"bits", options.bits},
          {"group", options.group},
          {"residual", options.residual},
          {"schedule", "after_prompt_then_token_by_token"}};
}

}  // namespace

Json run_config(std::string_view task, const RunSettings& settings,
                const ConfiguredPolicy& configured, const Model& model) {
  const PolicyTraits& traits = configured.policy->traits();
  Json config = {
      {"task", task},
      {"model_sha256", model.content_hash()},
      {"policy_name", configured.name},
      {"policy_options", options_json(configured)},
      {"evict", traits.evict == EvictWhen::before ? "before" : "after"},
      {"positions", traits.positions == PositionMode::original ? "original" : "cache_index"},
      {"chunk", settings.chunk},
      {"compute_dtype", dtype_name(settings.dtype)},
      {"kv_dtype", dtype_name(settings.kv_dtype)},
      {"kvbench_version", read_environment().kvbench_version},
      {"seed", settings.seed},
  };
  if (settings.softmax_off_by_one) config["softmax_off_by_one"] = true;
  if (model.sinks().count() > 0) {
    config["learned_sinks"] = {{"rows", model.sinks().count()},
                               {"sha256", model.sinks().content_hash()}};
  }
  if (settings.kivi) config["kv"] = kivi_json(*settings.kivi);
  // The model's own window, so that "full" is never claimed of a model that slides.
  for (std::int64_t layer = 0; layer < model.config().n_layers; ++layer) {
    if (const auto window = model.config().window_of(layer)) {
      config["model_sliding_window"] = *window;
      break;
    }
  }
  return config;
}

void add_text_config(const TokenRequest& request, const TokenSource& source, Json& config) {
  config.update({{"data_sha256", source.sha256},
                 {"max_tokens", request.max_tokens},
                 {"bos", source.bos},
                 {"specials", request.specials == SpecialTokens::parse ? "parse" : "text"},
                 {"newline", newline_name(request.corpus.newline)}});
}

RunRecord start_record(const Json& config, const RunSettings& settings,
                       const ConfiguredPolicy& configured, const Model& model,
                       const Backend& backend) {
  RunRecord record;
  record.task = config.at("task").get<std::string>();
  record.started_at = utc_now();
  record.config_json = dump_json(config);
  record.config_hash = config_hash_of_text(record.config_json);
  record.model_path = settings.model;
  record.model_sha256 = model.content_hash();
  record.model_dtype = dtype_name(model.storage_dtype());
  record.policy = configured.text;
  record.policy_json = dump_json(options_json(configured));
  record.seed = settings.seed;
  record.dtype = dtype_name(settings.dtype);
  record.backend = backend.name();
  record.threads = backend.threads();
  record.environment = read_environment();
  record.warnings = model.warnings();
  return record;
}

void note_data(const TokenSource& source, RunRecord& record) {
  record.data_name = source.name;
  record.data_path = source.path;
  record.data_sha256 = source.sha256;
  record.data_documents = static_cast<std::int64_t>(source.documents.size());
  record.data_bytes = source.bytes;
  record.warnings.insert(record.warnings.end(), source.warnings.begin(), source.warnings.end());
}

void mark_failed(RunRecord& record, const Error& error, const std::string& metric) {
  record.ok = false;
  record.reason = error.what();
  record.exit_code = error.exit_code();
  record.metrics = {missing_metric(metric, "", error.what())};
}

bool run_guarded(RunRecord& record, const std::string& metric, const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    mark_failed(record, error, metric);
  } catch (const std::bad_alloc&) {
    mark_failed(record, DeviceError("out of memory"), metric);
  }
  return false;
}

void note_idle(std::int64_t evicted, const ConfiguredPolicy& configured, bool strict,
               RunRecord& record) {
  if (evicted > 0 || configured.name == "full") return;
  if (strict) config_error("policy {} evicted nothing (--strict)", configured.text);
  record.warnings.emplace_back("the policy evicted nothing: its numbers are those of full");
}

void check_fits(std::int64_t bytes, const std::string& what) {
  const std::int64_t limit = usable_memory_bytes();
  if (limit > 0 && bytes > limit) {
    device_error("{} {} bytes, and this process may use {}", what, bytes, limit);
  }
}

}  // namespace kvbench
