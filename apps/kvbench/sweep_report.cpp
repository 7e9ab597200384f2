// Definitions of sweep_report.hpp.
#include "apps/kvbench/sweep_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "apps/kvbench/cell_times.hpp"
#include "report/console_reporter.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

// Settings of a row that follow from its policy, or that other columns tell better.
bool is_told_elsewhere(const std::string& key) {
  static const std::set<std::string> kKeys = {"policy_name", "evict", "positions",
                                              "kvbench_version", "compute_dtype"};
  return kKeys.contains(key);
}

// The names of a row's settings: some fields of every record, and those of its configuration, which
// stand behind schema_version.
std::vector<std::string> setting_names(const Json& row) {
  std::vector<std::string> names = {"model", "data", "dtype", "seed"};
  bool behind = false;
  for (const auto& [key, value] : row.items()) {
    if (behind && !is_told_elsewhere(key)) names.push_back(key);
    if (key == "schema_version") behind = true;
  }
  return names;
}

Json field(const Json& row, const std::string& key) {
  const auto found = row.find(key);
  return found == row.end() ? Json() : *found;
}

std::vector<std::string> varying_settings(const std::vector<Json>& rows) {
  std::vector<std::string> names;
  std::map<std::string, std::set<std::string>> values;
  for (const Json& row : rows) {
    for (const std::string& name : setting_names(row)) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  for (const Json& row : rows) {
    for (const std::string& name : names) values[name].insert(field(row, name).dump());
  }
  std::erase_if(names, [&](const std::string& name) { return values[name].size() < 2; });
  return names;
}

std::vector<Json> of_task(const std::vector<Json>& rows, std::string_view task) {
  std::vector<Json> own;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(own),
               [&](const Json& row) { return field(row, "task") == task; });
  return own;
}

// The settings in which the cells of a plan differ, as text.
std::vector<std::string> varying_keys(const SweepPlan& plan) {
  std::vector<std::string> keys;
  std::map<std::string, std::set<SettingTexts>> values;
  for (const SweepGroup& group : plan.groups) {
    for (const auto& [name, texts] : group.cells.front().settings) {
      if (!values.contains(name)) keys.push_back(name);
      values[name].insert(texts);
    }
  }
  for (const SweepGroup& group : plan.groups) {
    for (const std::string& key : keys) {
      if (group.cells.front().find(key) == nullptr) values[key].insert(SettingTexts{});
    }
  }
  std::erase_if(keys, [&](const std::string& key) { return values[key].size() < 2; });
  return keys;
}

Json plan_row(const SweepCell& cell, std::size_t number, const std::vector<std::string>& keys,
              CellTimes& times, TaskContext& context) {
  std::vector<std::string> policies;
  if (!cell.policy.empty()) policies.push_back(cell.policy);
  const TaskEstimate estimate = prepare_task(cell, policies, false).task->estimate(context);
  Json row = {{"cell", number}, {"task", cell.task}, {"policy", cell.policy}};
  for (const std::string& key : keys) {
    const SettingTexts* texts = cell.find(key);
    row[key] = texts == nullptr ? "-" : fmt::format("{}", fmt::join(*texts, " "));
  }
  row["tokens"] = estimate.tokens;
  row["kv_bytes"] = estimate.kv_bytes;
  row["seconds"] = times.seconds(cell, estimate);
  return row;
}

}  // namespace

void print_plan(std::ostream& stream, const SweepPlan& plan, const std::filesystem::path& out) {
  CellTimes times(out);
  const std::vector<std::string> keys = varying_keys(plan);
  std::vector<ReportColumn> columns{{"cell", "cell", CellFormat::count},
                                    {"task", "task", CellFormat::text}};
  for (const std::string& key : keys) columns.push_back({key, key, CellFormat::text});
  columns.push_back({"policy", "", CellFormat::policy});
  columns.push_back({"tokens", "tokens", CellFormat::count});
  columns.push_back({"KV peak", "kv_bytes", CellFormat::bytes});
  columns.push_back({"seconds", "seconds", CellFormat::real});
  TaskContext context;
  context.quiet = true;
  std::vector<Json> rows;
  double total_seconds = 0.0;
  std::int64_t total_tokens = 0;
  for (const SweepGroup& group : plan.groups) {
    for (const SweepCell& cell : group.cells) {
      rows.push_back(plan_row(cell, rows.size() + 1, keys, times, context));
      total_tokens += rows.back()["tokens"].get<std::int64_t>();
      total_seconds += rows.back()["seconds"].get<double>();
    }
  }
  write_table(stream, columns, rows);
  stream << fmt::format("{} cells in {} runs, {} tokens; records go to {}\n", plan.cell_count(),
                        plan.groups.size(), human_count(total_tokens),
                        out.empty() ? "no folder yet: give --out" : out.string());
  stream << fmt::format("time: {:.0f} s one after the other, {}\n", total_seconds, times.basis());
}

std::vector<Json> rows_in_order(const IndexContents& index, const SweepPlan& plan) {
  std::vector<std::string> policies;
  std::vector<std::string> models;
  const auto add = [](std::vector<std::string>& list, const std::string& value) {
    if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  };
  for (const SweepGroup& group : plan.groups) {
    for (const SweepCell& cell : group.cells) add(policies, cell.policy);
    if (const SettingTexts* model = group.cells.front().find("model")) add(models, model->front());
  }
  const auto place = [](const std::vector<std::string>& list, const Json& value) {
    return std::find(list.begin(), list.end(), value) - list.begin();
  };
  std::vector<Json> rows;
  for (const IndexEntry& entry : index.entries) rows.push_back(Json::parse(entry.row_json));
  const std::vector<std::string> varying = varying_settings(rows);
  const auto key = [&](const Json& row) {
    std::vector<Json> settings;
    for (const std::string& name : varying) {
      if (name != "model") settings.push_back(field(row, name));
    }
    return std::tuple(place(models, field(row, "model")), settings,
                      place(policies, field(row, "policy")));
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Json& a, const Json& b) { return key(a) < key(b); });
  return rows;
}

void print_tables(std::ostream& stream, const std::vector<Json>& rows) {
  bool first = true;
  for (const TaskInfo& info : tasks()) {
    const std::vector<Json> own = of_task(rows, info.name);
    if (own.empty()) continue;
    if (!first) stream << '\n';
    first = false;
    std::vector<ReportColumn> columns;
    for (const std::string& name : varying_settings(own)) {
      columns.push_back({name, name, CellFormat::text});
    }
    columns.insert(columns.end(), info.columns.begin(), info.columns.end());
    stream << info.name << '\n';
    write_table(stream, columns, own);
  }
}

}  // namespace kvbench
