// Definitions of report/result_set.hpp.
#include "report/result_set.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/config_hash.hpp"
#include "core/error.hpp"
#include "core/printable.hpp"
#include "io/json_file.hpp"
#include "io/json_reader.hpp"
#include "report/json_reporter.hpp"
#include "report/record.hpp"
#include "report/record_store.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) config_error("{}: cannot be read", printable(path.string()));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::filesystem::path index_of(const std::filesystem::path& path) {
  std::filesystem::path index = std::filesystem::is_directory(path) ? path / "index.jsonl" : path;
  if (!std::filesystem::is_regular_file(index)) {
    config_error("{}: no results; expected a folder with an index.jsonl, or such a file",
                 printable(path.string()));
  }
  return index;
}

// Strictly checked, then kept in the order of the text.
std::shared_ptr<const Json> parse_ordered(const std::string& text, const std::string& where) {
  const nlohmann::json checked = parse_json(text, where);
  if (!checked.is_object()) throw_json_error(JsonErrors::data, where, "no JSON object");
  return std::make_shared<const Json>(Json::parse(text));
}

// The whole record of a run, checked against the hash that names it; null when there is none.
std::shared_ptr<const Json> read_record(const std::filesystem::path& folder,
                                        const std::string& hash) {
  const bool plain = !hash.empty() && hash.find_first_not_of("0123456789abcdef") == hash.npos;
  const std::filesystem::path path = folder / (hash + ".json");
  if (!plain || !std::filesystem::is_regular_file(path)) return nullptr;
  const std::string where = path.string();
  auto record = parse_ordered(read_file(path), where);
  const auto config = record->find("config");
  if (config == record->end() || !config->is_object()) {
    data_error("{}: key config: expected an object", where);
  }
  const std::string found = config_hash_of_text(config->dump());
  if (found != hash) {
    data_error("{}: its configuration has the hash {}: the file was changed or renamed", where,
               found);
  }
  return record;
}

ResultRun make_run(const IndexEntry& entry, const std::filesystem::path& index) {
  ResultRun run;
  run.policy = entry.policy;
  run.ok = entry.ok;
  run.reason = entry.reason;
  run.config_hash = entry.config_hash;
  run.row = parse_ordered(entry.row_json, index.string());
  run.record = read_record(index.parent_path(), entry.config_hash);
  run.task = run.text("task");
  run.comparison_hash =
      run.record ? comparison_hash(run.record->at("config").dump()) : run.text("comparison_hash");
  return run;
}

// A later run of one configuration takes the place of an earlier one.
void add(ResultSet& results, ResultRun run, const std::string& where) {
  const auto same = [&](const ResultRun& other) {
    return other.config_hash == run.config_hash ||
           (!run.comparison_hash.empty() && other.comparison_hash == run.comparison_hash);
  };
  const auto earlier = std::find_if(results.runs.begin(), results.runs.end(), same);
  if (earlier == results.runs.end()) {
    results.runs.push_back(std::move(run));
    return;
  }
  results.warnings.push_back(fmt::format("{}: {} {} is there more than once; the last one counts",
                                         where, run.task, run.policy));
  if (run.ok || !earlier->ok) *earlier = std::move(run);
}

bool is_error_bar(const Json& row, const std::string& name) {
  for (const char* ending : {"", "_mean"}) {
    const std::size_t cut = name.rfind("_stderr");
    if (cut == std::string::npos || cut + 7 != name.size()) return false;
    if (row.contains(name.substr(0, cut) + ending)) return true;
  }
  return false;
}

}  // namespace

std::optional<double> ResultRun::metric(std::string_view name) const {
  const auto found = row->find(std::string(name));
  if (found == row->end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::optional<double> ResultRun::error_bar(std::string_view name) const {
  return metric(error_bar_name(name));
}

std::vector<std::string> ResultRun::metric_names() const {
  std::vector<std::string> names;
  bool inside = false;
  for (const auto& [key, value] : row->items()) {
    if (key == "model") break;
    if (inside && !is_error_bar(*row, key)) names.push_back(key);
    inside = inside || key == "reason";
  }
  return names;
}

std::string ResultRun::text(std::string_view field) const {
  const auto found = row->find(std::string(field));
  return found != row->end() && found->is_string() ? found->get<std::string>() : "";
}

std::vector<std::pair<std::string, std::string>> ResultRun::settings() const {
  std::vector<std::pair<std::string, std::string>> settings;
  const auto put = [&](const std::string& key, const Json& value) {
    settings.emplace_back(key, value.is_string() ? value.get<std::string>() : dump_json(value));
  };
  if (row->contains("seed")) put("seed", row->at("seed"));
  bool inside = false;
  for (const auto& [key, value] : row->items()) {
    if (inside) put(key, value);
    inside = inside || key == "schema_version";
  }
  if (record) {
    for (const auto& [key, value] : record->at("config").items()) {
      const bool told = row->contains(key) || key == "policy_options";
      if (value.is_structured() && !told) put(key, value);
    }
  }
  return settings;
}

ResultSet read_results(std::span<const std::filesystem::path> paths) {
  ResultSet results;
  for (const std::filesystem::path& path : paths) {
    const std::filesystem::path index = index_of(path);
    const IndexContents contents = parse_index(read_file(index), index.string());
    results.warnings.insert(results.warnings.end(), contents.warnings.begin(),
                            contents.warnings.end());
    for (const IndexEntry& entry : contents.entries) {
      add(results, make_run(entry, index), path.string());
    }
  }
  return results;
}

ResultSet read_results(const std::filesystem::path& path) {
  return read_results(std::span(&path, 1));
}

}  // namespace kvbench
