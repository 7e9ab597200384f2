// RunRecord: everything that is kept about one run, as a plain value. Reporters and the record
// store read nothing else. results/README.md describes each field and its unit.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/environment.hpp"

namespace kvbench {

inline constexpr int kRecordSchemaVersion = 1;

// One measured number. A value that is absent or not finite is written as null, with a reason.
struct Metric {
  std::string name;  // snake_case; names of bytes and times carry their unit
  std::optional<double> value;
  std::string unit;
  bool is_count = false;       // written as an integer
  bool has_error_bar = false;  // NAME_stderr is written even where it is null
  std::optional<double> standard_error;
  std::int64_t n = 0;  // number of samples behind the value, 0 where that means nothing
  std::string reason;  // why value is absent
};
Metric real_metric(std::string name, double value, std::string unit);
Metric sampled_metric(std::string name, double value, std::string unit, std::int64_t n,
                      std::optional<double> standard_error);
Metric count_metric(std::string name, std::int64_t value, std::string unit);
Metric missing_metric(std::string name, std::string unit, std::string reason);

struct Timing {
  std::string name;  // e.g. "load", "prefill", "decode"
  double seconds = 0.0;
};

struct RunRecord {
  int schema_version = kRecordSchemaVersion;
  std::string task;
  std::string started_at;  // ISO 8601, UTC; see utc_now()

  // The resolved configuration, a JSON object. It names model and data by content hash (paths
  // stand below), so that moving files does not change config_hash.
  std::string config_json = "{}";
  std::string config_hash;  // config_hash(config_json)

  std::string model_path;
  std::string model_sha256;
  std::string model_dtype;  // of the stored weights
  std::string data_name;
  std::string data_path;
  std::string data_sha256;
  std::int64_t data_documents = 0;
  std::int64_t data_bytes = 0;

  std::string policy;              // as it is written on the command line
  std::string policy_json = "{}";  // every option of it, resolved

  std::uint64_t seed = 0;
  std::string dtype;  // of the computation
  std::string backend;
  int threads = 0;
  int streams = 1;  // sequences that went through the model side by side
  Environment environment;

  std::vector<Metric> metrics;
  std::vector<Timing> timings;
  std::string details_json = "{}";  // curves, per-document and per-sample rows: a JSON object
  std::vector<std::string> warnings;

  bool ok = true;
  std::string reason;  // why not ok
  int exit_code = 0;   // of a program that stops here: 0 when ok
};

// First metric of that name, or null.
const Metric* find_metric(const RunRecord& record, const std::string& name);

// The whole record: nested, as stored in <config_hash>.json.
nlohmann::ordered_json record_to_json(const RunRecord& record);

// One flat object, as in index.jsonl and in --json arrays: each metric under its name (and
// NAME_stderr) between "reason" and "model", then the fields above up to "schema_version", and last
// the scalar members of the configuration.
nlohmann::ordered_json record_to_row(const RunRecord& record);

// The field with the error bar of a metric: NAME_stderr for NAME and for NAME_mean.
std::string error_bar_name(std::string_view metric);

// Of a configuration without kvbench_version: the same for runs of two versions that are to be
// compared. ConfigError when it is no JSON object.
std::string comparison_hash(const std::string& config_json);

// Seconds resolution, e.g. "2024-05-01T12:00:00Z".
std::string utc_now();

}  // namespace kvbench
