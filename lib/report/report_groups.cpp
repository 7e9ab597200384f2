// Definitions of report/report_groups.hpp.
#include "report/report_groups.hpp"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "config/policy_spec.hpp"
#include "core/error.hpp"
#include "report/compare.hpp"

namespace kvbench {
namespace {

using Options = std::vector<std::pair<std::string, std::string>>;

// What may differ between the runs of a group.
bool is_policy_setting(const std::string& key) {
  static const std::set<std::string> kNames = {"policy_name", "evict", "positions",
                                               "seed",        "kv",    "kvbench_version"};
  return kNames.count(key) > 0;
}

bool sets_the_budget(const std::string& key) {
  static const std::set<std::string> kNames = {"capacity", "keep", "p", "heavy", "recent"};
  return kNames.count(key) > 0;
}

std::string model_of(const ResultRun& run) {
  const std::filesystem::path path(run.text("model"));
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::string group_key(const ResultRun& run) {
  std::string key;
  for (const std::string& part :
       {run.task, run.text("model_sha256"), run.text("data_sha256"), run.text("data")}) {
    key += part + '\n';
  }
  for (const auto& [name, value] : run.settings()) {
    if (!is_policy_setting(name)) key.append(name).append("=").append(value).append("\n");
  }
  return key;
}

// Of the record all options as they were resolved, else those that the policy's text names.
Options options_of(const ResultRun& run, std::string& family) {
  Options options;
  try {
    const PolicySpec spec = parse_policy(run.policy);
    family = spec.name;
    options = spec.options;
  } catch (const ConfigError&) {
    family = run.policy;  // of another version, which wrote policies in another way
  }
  if (!run.record) return options;
  const auto found = run.record->find("policy_options");
  if (found == run.record->end() || !found->is_object()) return options;
  options.clear();
  for (const auto& [key, value] : found->items()) {
    options.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return options;
}

// What the options say is kept; absent for a share of the prompt.
std::optional<double> budget_of(const Options& options) {
  const auto number = [&](const std::string& name) -> double {
    for (const auto& [key, value] : options) {
      if (key != name || value.empty()) continue;
      if (value.find_first_not_of("0123456789") != value.npos || value.size() > 15) return 0.0;
      return std::stod(value);
    }
    return 0.0;
  };
  double budget = number("capacity");
  if (budget == 0) budget = number("heavy") + number("recent");
  if (budget > 0 && number("heavy") == 0 && number("capacity") == 0) budget += number("sinks");
  return budget > 0 ? std::optional(budget) : std::nullopt;
}

// Series of the same family are told apart by the options in which they differ.
void resolve_policies(std::vector<GroupedRun>& runs) {
  std::vector<Options> all;
  std::map<std::pair<std::string, std::string>, std::set<std::string>> values;
  for (GroupedRun& run : runs) {
    all.push_back(options_of(*run.run, run.family));
    for (const auto& [key, value] : all.back()) values[{run.family, key}].insert(value);
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].series = runs[i].family;
    for (const auto& [key, value] : all[i]) {
      if (sets_the_budget(key) || values[{runs[i].family, key}].size() < 2) continue;
      runs[i].series.append(" ").append(key).append("=").append(value);
    }
    // A label says more than the policy where seeds or the storage differ.
    runs[i].series += runs[i].label.substr(runs[i].run->policy.size());
    if (runs[i].family == "full") continue;
    runs[i].budget = runs[i].run->metric("capacity");
    if (!runs[i].budget) runs[i].budget = budget_of(all[i]);
  }
}

std::vector<ReportColumn> all_metrics(const ResultRun& run) {
  std::vector<ReportColumn> columns{{"policy", "", CellFormat::policy}};
  for (const std::string& name : run.metric_names()) {
    columns.push_back({name, name, CellFormat::measured});
  }
  return columns;
}

void finish(ReportGroup& group, const ColumnsOfTask& columns) {
  const ResultRun& first = *group.runs.front().run;
  group.task = first.task;
  group.model = model_of(first);
  group.data = first.text("data");
  for (auto& setting : first.settings()) {
    if (!is_policy_setting(setting.first)) group.settings.push_back(std::move(setting));
  }
  const auto table = columns(group.task);
  group.columns.assign(table.begin(), table.end());
  if (group.columns.empty()) group.columns = all_metrics(first);
  std::vector<ResultRun> copies;
  for (const GroupedRun& run : group.runs) copies.push_back(*run.run);
  const std::vector<std::string> labels = run_labels(copies);
  for (std::size_t i = 0; i < labels.size(); ++i) group.runs[i].label = labels[i];
  resolve_policies(group.runs);
}

}  // namespace

std::vector<ReportGroup> group_runs(const ResultSet& results, const ColumnsOfTask& columns) {
  std::vector<ReportGroup> groups;
  std::map<std::string, std::size_t> places;
  for (const ResultRun& run : results.runs) {
    const auto [place, is_new] = places.emplace(group_key(run), groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].runs.push_back(
        {.run = &run, .label = {}, .family = {}, .series = {}, .budget = {}});
  }
  for (ReportGroup& group : groups) finish(group, columns);
  return groups;
}

}  // namespace kvbench
