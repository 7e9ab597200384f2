// Definitions of task/sweep_plan.hpp.
#include "task/sweep_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "config/parse_number.hpp"
#include "config/sweep_axis.hpp"
#include "core/error.hpp"
#include "io/json_file.hpp"
#include "policy/registry.hpp"

namespace kvbench {
namespace {

// The settings of tasks by name, for checking values; made when first asked for.
class ScratchTasks {
 public:
  const SettingSet& settings_of(const std::string& name) {
    const auto found = tasks_.find(name);
    if (found != tasks_.end()) return found->second.settings;
    const TaskInfo& info = find_task(name);
    PreparedTask& made = tasks_.emplace(name, PreparedTask{&info, info.make(), {}}).first->second;
    made.task->declare(made.settings);
    return made.settings;
  }

 private:
  std::map<std::string, PreparedTask> tasks_;
};

std::filesystem::path environment_path(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

SweepPaths paths_of(const std::filesystem::path& config) {
  SweepPaths paths;
  paths.folder = std::filesystem::canonical(config).parent_path();
  paths.home = environment_path("HOME");
  paths.cache = environment_path("KVBENCH_CACHE");
  if (paths.cache.empty() && !paths.home.empty()) paths.cache = paths.home / ".cache/kvbench";
  return paths;
}

// Files that options of the policy name, relative to the configuration.
void resolve_policy_files(std::string& policy, const SweepPaths& paths) {
  for (const auto& [key, value] : parse_policy(policy).options) {
    const bool is_path =
        std::any_of(policies().begin(), policies().end(), [&name = key](const PolicyInfo& info) {
          return std::any_of(info.options.begin(), info.options.end(), [&](const auto& option) {
            return option.kind == OptionKind::path && option.key == name;
          });
        });
    if (!is_path) continue;
    const std::string given = fmt::format("{}={}", key, value);
    policy.replace(policy.find(given), given.size(),
                   fmt::format("{}={}", key, paths.resolve(value).string()));
  }
}

// Equal for cells that ask for the same run: defaults spelled out, policies by their options.
std::string identity(const SweepCell& cell, const SettingSet& settings) {
  std::string text = cell.task;
  for (const Setting& setting : settings.all()) {
    const SettingTexts* given = cell.find(setting.name);
    text += fmt::format("\n{}=", setting.name);
    if (given == nullptr) {
      text += setting.fallback;
    } else {
      text += fmt::format("{}", fmt::join(*given, "\n "));
    }
  }
  if (cell.policy.empty()) return text;
  const ConfiguredPolicy policy = make_policy(cell.policy);
  text += "\n" + policy.name;
  for (const auto& [key, value] : policy.options) text += fmt::format("\n{}={}", key, value);
  return text;
}

void limit_for_dry_run(SettingSet& settings, const SweepCell& cell) {
  for (Setting& setting : settings.all()) {
    if (setting.dry_run == 0) continue;
    const SettingTexts* given = cell.find(setting.name);
    std::string text = given == nullptr ? setting.fallback : given->front();
    const bool list = setting.kind == SettingKind::integers;
    if (list) {
      text.erase(std::min(text.find(','), text.size()));
      setting.store(text, setting.name);
    }
    const std::uint64_t value = parse_uint64(text, setting.name);
    const auto limit = static_cast<std::uint64_t>(setting.dry_run);
    if (value > limit || (value == 0 && setting.zero_is_all)) {
      setting.store(std::to_string(limit), setting.name);
    }
  }
}

void check_cells(const std::vector<SweepCell>& cells, const std::string& where,
                 ScratchTasks& scratch) {
  std::map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const SweepCell& cell = cells[i];
    const std::string label = fmt::format("{}: cell {} ({})", where, i + 1, cell_label(cell));
    try {
      std::vector<std::string> policies;
      if (!cell.policy.empty()) policies.push_back(cell.policy);
      prepare_task(cell, policies, false).task->check();
    } catch (const Error& error) {
      throw Error(error.exit_code(), label + ": " + error.what());
    }
    const auto [earlier, added] = seen.emplace(identity(cell, scratch.settings_of(cell.task)), i);
    if (!added) config_error("{} is the same run as cell {}", label, earlier->second + 1);
  }
}

std::vector<SweepGroup> grouped(std::vector<SweepCell> cells) {
  std::vector<SweepGroup> groups;
  for (SweepCell& cell : cells) {
    const auto same = [&](const SweepGroup& group) {
      return !cell.policy.empty() && group.cells.front().task == cell.task &&
             group.cells.front().settings == cell.settings;
    };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.insert(groups.end(), SweepGroup{});
    group->cells.push_back(std::move(cell));
  }
  return groups;
}

}  // namespace

std::size_t SweepPlan::cell_count() const {
  return std::accumulate(groups.begin(), groups.end(), std::size_t{0},
                         [](std::size_t sum, const SweepGroup& g) { return sum + g.cells.size(); });
}

PreparedTask prepare_task(const SweepCell& cell, const std::vector<std::string>& policies,
                          bool dry_run) {
  const TaskInfo& info = find_task(cell.task);
  PreparedTask prepared{&info, info.make(), {}};
  prepared.task->declare(prepared.settings);
  for (Setting& setting : prepared.settings.all()) {
    const SettingTexts* given = setting.name == "policy" ? &policies : cell.find(setting.name);
    if (given == nullptr) {
      if (setting.required) config_error("key {}: missing", setting.name);
      continue;
    }
    for (const std::string& text : *given) SettingSet::set(setting, text, "key " + setting.name);
  }
  if (dry_run) limit_for_dry_run(prepared.settings, cell);
  return prepared;
}

PreparedTask prepare_task(const SweepGroup& group, bool dry_run) {
  std::vector<std::string> policies;
  for (const SweepCell& cell : group.cells) {
    if (!cell.policy.empty()) policies.push_back(cell.policy);
  }
  return prepare_task(group.cells.front(), policies, dry_run);
}

std::string cell_label(const SweepCell& cell) {
  std::string label = cell.task;
  if (!cell.policy.empty()) label += ", policy " + cell.policy;
  for (const auto& [name, texts] : cell.settings) {
    const std::string text = fmt::format("{}", fmt::join(texts, " "));
    label += fmt::format(", {} {}", name, text.size() > 60 ? text.substr(0, 57) + "..." : text);
  }
  return label;
}

SweepPlan read_sweep(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  const std::string where = path.string();
  nlohmann::json document = read_json_file(path, {.allow_bom = true, .errors = JsonErrors::config});
  for (const std::string& assignment : overrides) apply_override(document, assignment);
  const SweepPaths paths = paths_of(path);
  ScratchTasks scratch;
  SweepConfig config = expand_sweep(document, where, paths,
                                    [&scratch](const std::string& task) -> const SettingSet& {
                                      return scratch.settings_of(task);
                                    });
  for (SweepCell& cell : config.cells) {
    if (!cell.policy.empty()) resolve_policy_files(cell.policy, paths);
  }
  check_cells(config.cells, where, scratch);
  return {config.out, grouped(std::move(config.cells))};
}

std::int64_t weight_file_bytes(const std::filesystem::path& model) {
  std::int64_t total = 0;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(model, failure)) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto size = entry.file_size(failure);
    if (!failure) total += static_cast<std::int64_t>(size);
  }
  return std::max<std::int64_t>(total, 1);
}

void add_costs(SweepPlan& plan, TaskContext& context) {
  for (SweepGroup& group : plan.groups) {
    const SettingTexts* model = group.cells.front().find("model");
    const std::int64_t bytes = model == nullptr ? 1 : weight_file_bytes(model->front());
    try {
      group.cost = prepare_task(group, false).task->estimate(context).tokens * bytes;
    } catch (const Error&) {
      group.cost = bytes;  // the run will say what is wrong with its model or text
    }
  }
}

std::vector<SweepGroup> part_of(const std::vector<SweepGroup>& groups, std::size_t index,
                                std::size_t parts) {
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return groups[a].cost > groups[b].cost; });
  std::vector<std::int64_t> load(parts, 0);
  std::vector<std::size_t> mine;
  for (const std::size_t group : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += std::max<std::int64_t>(groups[group].cost, 1);
    if (least - load.begin() == static_cast<std::ptrdiff_t>(index)) mine.push_back(group);
  }
  std::sort(mine.begin(), mine.end());  // models that follow each other are loaded once
  std::vector<SweepGroup> part;
  part.reserve(mine.size());
  for (const std::size_t group : mine) part.push_back(groups[group]);
  return part;
}

}  // namespace kvbench
