// A sweep's configuration: one JSON object with lists and ranges anywhere, expanded to the ordered
// list of its cells. What tasks and settings exist is the caller's knowledge.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/setting_json.hpp"
#include "config/setting_set.hpp"

namespace kvbench {

// One run. Settings stand in the order of their declaration; those that were not given are absent.
struct SweepCell {
  std::string task;
  std::vector<std::pair<std::string, SettingTexts>> settings;  // without the policy
  std::string policy;                                          // empty: the task has none

  // The value given for the setting, or null.
  const SettingTexts* find(std::string_view name) const;
};

struct SweepConfig {
  std::filesystem::path out;  // empty: not given
  std::vector<SweepCell> cells;
};

// Where relative paths begin. "~/x" and "$KVBENCH_CACHE/x" are understood too.
struct SweepPaths {
  std::filesystem::path folder;  // of the configuration file itself, links followed
  std::filesystem::path home;
  std::filesystem::path cache;

  std::filesystem::path resolve(const std::string& text) const;
};

// The settings of a task; ConfigError for an unknown name.
using TaskSettings = std::function<const SettingSet&(const std::string& task)>;

// Keys of a configuration beside the settings of its tasks.
std::vector<std::string> sweep_keys();

// Cells are ordered by model, then task, then the settings as they are declared; policies move
// fastest. ConfigError begins with `where` and names the key.
SweepConfig expand_sweep(const nlohmann::json& document, const std::string& where,
                         const SweepPaths& paths, const TaskSettings& settings_of);

}  // namespace kvbench
