// Metrics, and the two JSON shapes of a record. No fault of a value may lose a finished run: what
// JSON cannot hold becomes null with a reason.
#include "report/record.hpp"

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/config_hash.hpp"
#include "core/error.hpp"
#include "io/json_file.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

Json number_or_null(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return *value;
}

Json metric_value(const Metric& metric) {
  Json value = number_or_null(metric.value);
  if (metric.is_count && !value.is_null()) return static_cast<std::int64_t>(*metric.value);
  return value;
}

Json text_or_null(const std::string& text) {
  if (text.empty()) return nullptr;
  return text;
}

Json metric_reason(const Metric& metric) {
  if (metric.value && !std::isfinite(*metric.value)) return "non-finite";
  return text_or_null(metric.reason);
}

Json parse_object(const std::string& text, const char* field) {
  Json object = Json::parse(text, nullptr, false);
  KVB_CHECK(object.is_object(), "record field {} holds no JSON object: {}", field, text);
  return object;
}

// "kivi:bits=2,group=32,residual=128", as on the command line: of {"kind": "kivi", "bits": 2, ...}.
std::string storage_text(const Json& storage) {
  std::string text = storage.value("kind", "");
  char before = ':';
  for (const auto& [key, value] : storage.items()) {
    if (!value.is_number()) continue;
    text += fmt::format("{}{}={}", before, key, value.dump());
    before = ',';
  }
  return text;
}

}  // namespace

Metric real_metric(std::string name, double value, std::string unit) {
  Metric metric;
  metric.name = std::move(name);
  metric.value = value;
  metric.unit = std::move(unit);
  return metric;
}

Metric sampled_metric(std::string name, double value, std::string unit, std::int64_t n,
                      std::optional<double> standard_error) {
  Metric metric = real_metric(std::move(name), value, std::move(unit));
  metric.n = n;
  metric.has_error_bar = true;
  metric.standard_error = standard_error;
  return metric;
}

Metric count_metric(std::string name, std::int64_t value, std::string unit) {
  Metric metric = real_metric(std::move(name), static_cast<double>(value), std::move(unit));
  metric.is_count = true;
  return metric;
}

Metric missing_metric(std::string name, std::string unit, std::string reason) {
  Metric metric;
  metric.name = std::move(name);
  metric.unit = std::move(unit);
  metric.reason = std::move(reason);
  return metric;
}

const Metric* find_metric(const RunRecord& record, const std::string& name) {
  for (const Metric& metric : record.metrics) {
    if (metric.name == name) return &metric;
  }
  return nullptr;
}

Json record_to_json(const RunRecord& record) {
  Json metrics = Json::array();
  for (const Metric& metric : record.metrics) {
    metrics.push_back({{"name", metric.name},
                       {"value", metric_value(metric)},
                       {"unit", metric.unit},
                       {"n", metric.n},
                       {"stderr", number_or_null(metric.standard_error)},
                       {"reason", metric_reason(metric)}});
  }
  Json timings = Json::object();
  for (const Timing& timing : record.timings) timings[timing.name] = number_or_null(timing.seconds);
  return {{"schema_version", record.schema_version},
          {"task", record.task},
          {"status", record.ok ? "ok" : "error"},
          {"reason", text_or_null(record.reason)},
          {"started_at", record.started_at},
          {"config_hash", record.config_hash},
          {"config", parse_object(record.config_json, "config")},
          {"model",
           {{"path", record.model_path},
            {"sha256", record.model_sha256},
            {"dtype", record.model_dtype}}},
          {"data",
           {{"name", record.data_name},
            {"path", record.data_path},
            {"sha256", record.data_sha256},
            {"documents", record.data_documents},
            {"bytes", record.data_bytes}}},
          {"policy", record.policy},
          {"policy_options", parse_object(record.policy_json, "policy_options")},
          {"seed", record.seed},
          {"dtype", record.dtype},
          {"backend", record.backend},
          {"threads", record.threads},
          {"streams", record.streams},
          {"environment", environment_to_json(record.environment)},
          {"metrics", metrics},
          {"timings_s", timings},
          {"details", parse_object(record.details_json, "details")},
          {"warnings", record.warnings}};
}

Json record_to_row(const RunRecord& record) {
  Json row = Json::object();
  const auto put = [&](const std::string& key, Json value) {
    KVB_CHECK(!row.contains(key), "two fields of a record are called {}", key);
    row[key] = std::move(value);
  };
  put("task", record.task);
  put("policy", record.policy);
  put("status", record.ok ? "ok" : "error");
  put("reason", text_or_null(record.reason));
  for (const Metric& metric : record.metrics) {
    put(metric.name, metric_value(metric));
    if (metric.has_error_bar)
      put(error_bar_name(metric.name), number_or_null(metric.standard_error));
  }
  put("model", record.model_path);
  put("model_sha256", record.model_sha256);
  put("model_dtype", record.model_dtype);
  put("data", record.data_name);
  put("data_sha256", record.data_sha256);
  put("documents", record.data_documents);
  put("data_bytes", record.data_bytes);
  put("seed", record.seed);
  put("dtype", record.dtype);
  put("backend", record.backend);
  put("threads", record.threads);
  put("streams", record.streams);
  put("warnings", record.warnings);
  put("environment", environment_to_json(record.environment));
  put("started_at", record.started_at);
  put("config_hash", record.config_hash);
  put("comparison_hash", comparison_hash(record.config_json));
  put("schema_version", record.schema_version);
  // Settings of the task (protocol, chunk, ...), unless a field above says the same already.
  const Json config = parse_object(record.config_json, "config");
  for (const auto& [key, value] : config.items()) {
    if (value.is_primitive() && !row.contains(key)) put(key, value);
    if (key == "kv" && value.is_object()) put(key, storage_text(value));
  }
  return row;
}

std::string error_bar_name(std::string_view metric) {
  const bool of_mean = metric.ends_with("_mean");
  return std::string(of_mean ? metric.substr(0, metric.size() - 5) : metric) + "_stderr";
}

std::string comparison_hash(const std::string& config_json) {
  nlohmann::json config = parse_json(config_json, "configuration", {.errors = JsonErrors::config});
  if (!config.is_object()) config_error("configuration: no JSON object: {}", config_json);
  config.erase("kvbench_version");
  return config_hash(config);
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

}  // namespace kvbench
