// Definitions of config/sweep_config.hpp.
#include "config/sweep_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "config/policy_spec.hpp"
#include "config/sweep_axis.hpp"
#include "core/error.hpp"
#include "core/nearest_name.hpp"

namespace kvbench {
namespace {

using nlohmann::json;

constexpr const char* kPolicy = "policy";
constexpr const char* kTask = "task";
constexpr const char* kPoliciesFile = "policies_file";

class Expansion {
 public:
  Expansion(const json& document, const std::string& where, const SweepPaths& paths,
            const TaskSettings& settings_of)
      : document_(document), where_(where), paths_(paths), settings_of_(settings_of) {}

  SweepConfig run();

 private:
  std::string what(const std::string& key) const { return fmt::format("{}: key {}", where_, key); }
  std::string text_of(const char* key) const;
  void add_cells(const json& keys, const std::string& prefix, std::vector<SweepCell>& cells) const;
  void add_task(const json& task, const json& keys, const std::string& prefix,
                std::vector<SweepCell>& cells) const;
  void check_names(const json& keys, const std::string& prefix) const;
  std::vector<SettingTexts> axis(const Setting& setting, const json& value,
                                 const std::string& key) const;
  void add_included(std::vector<SweepCell>& cells) const;
  void exclude(std::vector<SweepCell>& cells) const;
  bool matches(const SweepCell& cell, const json& pattern, const std::string& prefix) const;
  bool matches_policy(const SweepCell& cell, const json& wanted, const std::string& key) const;

  const json& document_;
  const std::string& where_;
  const SweepPaths& paths_;
  const TaskSettings& settings_of_;
};

// The task objects of "task": a name, an object with "name", or a list of both.
std::vector<json> task_list(const json& value, const std::string& what) {
  std::vector<json> tasks;
  const json list = value.is_array() ? value : json::array({value});
  for (const json& task : list) {
    const bool named = task.is_object() && task.contains("name") && task["name"].is_string();
    if (!task.is_string() && !named) {
      config_error("{}: expected a task's name or an object with \"name\", found {}", what,
                   task.dump());
    }
    tasks.push_back(task.is_string() ? json{{"name", task}} : task);
  }
  if (tasks.empty()) config_error("{}: an empty list", what);
  return tasks;
}

const json& object_list(const json& value, const std::string& what) {
  const bool good = value.is_array() && std::all_of(value.begin(), value.end(), [](const json& v) {
                      return v.is_object() && !v.empty();
                    });
  if (!good) config_error("{}: expected a list of objects, found {}", what, value.dump());
  return value;
}

[[noreturn]] void reject_key(const std::string& what, const std::string& key,
                             const std::vector<std::string>& known) {
  if (key == kPoliciesFile) {
    config_error("{}: a sweep lists its policies under \"policy\"", what);
  }
  const std::string nearest = nearest_name(key, known);
  config_error("{}: unknown{}", what,
               nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest));
}

std::vector<std::string> names_of(const SettingSet& settings) {
  std::vector<std::string> names;
  for (const Setting& setting : settings.all()) {
    if (setting.name != kPoliciesFile) names.push_back(setting.name);
  }
  return names;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

SweepConfig Expansion::run() {
  if (!document_.is_object()) {
    config_error("{}: expected an object, found {}", where_, document_.type_name());
  }
  SweepConfig config;
  text_of("$schema");
  text_of("description");
  const std::string out = text_of("out");
  if (!out.empty()) config.out = paths_.resolve(out);
  if (!document_.contains(kTask)) config_error("{}: missing: a task's name", what(kTask));
  check_names(document_, "");
  json keys = document_;
  for (const char* key : {"include", "exclude"}) keys.erase(key);
  add_cells(keys, "", config.cells);
  exclude(config.cells);
  add_included(config.cells);
  if (config.cells.empty()) config_error("{}: no cell is left", where_);
  // One model after the other, each in the order of its first cell.
  std::vector<SettingTexts> models;
  const auto place = [&models](const SweepCell& cell) {
    const SettingTexts* model = cell.find("model");
    if (model == nullptr) return models.size();
    return static_cast<std::size_t>(std::find(models.begin(), models.end(), *model) -
                                    models.begin());
  };
  for (const SweepCell& cell : config.cells) {
    if (place(cell) == models.size() && cell.find("model") != nullptr) {
      models.push_back(*cell.find("model"));
    }
  }
  std::stable_sort(config.cells.begin(), config.cells.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return config;
}

std::string Expansion::text_of(const char* key) const {
  const auto found = document_.find(key);
  if (found == document_.end()) return "";
  if (!found->is_string() || found->get_ref<const std::string&>().empty()) {
    config_error("{}: expected a text, found {}", what(key), found->dump());
  }
  return found->get<std::string>();
}

// A setting outside the task objects must be one of at least one of the tasks.
void Expansion::check_names(const json& keys, const std::string& prefix) const {
  std::vector<std::string> known = prefix.empty() ? sweep_keys() : std::vector<std::string>{kTask};
  const json& tasks = keys.contains(kTask) ? keys[kTask] : document_[kTask];
  for (const json& task : task_list(tasks, what(prefix + kTask))) {
    for (std::string& name : names_of(settings_of_(task["name"]))) {
      if (!has(known, name)) known.push_back(std::move(name));
    }
  }
  for (const auto& [key, value] : keys.items()) {
    if (!has(known, key)) reject_key(what(prefix + key), key, known);
    if (value.is_null()) config_error("{}: null is no value", what(prefix + key));
  }
}

void Expansion::add_cells(const json& keys, const std::string& prefix,
                          std::vector<SweepCell>& cells) const {
  for (const json& task : task_list(keys[kTask], what(prefix + kTask))) {
    add_task(task, keys, prefix, cells);
  }
}

void Expansion::add_task(const json& task, const json& keys, const std::string& prefix,
                         std::vector<SweepCell>& cells) const {
  const SettingSet& settings = settings_of_(task["name"]);
  const std::vector<std::string> known = names_of(settings);
  for (const auto& [key, value] : task.items()) {
    const std::string name = fmt::format("{}{}.{}", prefix, kTask, key);
    if (key != "name" && !has(known, key)) reject_key(what(name), key, known);
    if (value.is_null()) config_error("{}: null is no value", what(name));
  }
  const auto given = [&](const std::string& name) -> std::pair<const json*, std::string> {
    if (task.contains(name)) return {&task[name], fmt::format("{}{}.{}", prefix, kTask, name)};
    return {keys.contains(name) ? &keys[name] : nullptr, prefix + name};
  };
  std::vector<SweepCell> product{{task["name"], {}, ""}};
  const auto multiply = [&](std::size_t count, const std::string& key, auto&& extend) {
    if (count > kMaxAxis / product.size()) {
      config_error("{}: more than {} cells", what(key), kMaxAxis);
    }
    std::vector<SweepCell> next;
    for (const SweepCell& cell : product) {
      for (std::size_t i = 0; i < count; ++i) extend(next.emplace_back(cell), i);
    }
    product = std::move(next);
  };
  for (const Setting& setting : settings.all()) {
    const auto [value, key] = given(setting.name);
    if (value == nullptr || setting.name == kPolicy || setting.name == kPoliciesFile) continue;
    const auto values = axis(setting, *value, key);
    multiply(values.size(), key, [&, name = setting.name](SweepCell& cell, std::size_t i) {
      cell.settings.emplace_back(name, values[i]);
    });
  }
  if (has(known, kPolicy)) {
    const auto [value, key] = given(kPolicy);
    if (value == nullptr) config_error("{}: missing: at least one policy", what(prefix + kPolicy));
    const auto policies = policy_axis(*value, what(key));
    multiply(policies.size(), key,
             [&](SweepCell& cell, std::size_t i) { cell.policy = policies[i]; });
  }
  if (product.size() > kMaxAxis - std::min(kMaxAxis, cells.size())) {
    config_error("{}: more than {} cells", where_, kMaxAxis);
  }
  cells.insert(cells.end(), product.begin(), product.end());
}

std::vector<SettingTexts> Expansion::axis(const Setting& setting, const json& value,
                                          const std::string& key) const {
  std::vector<SettingTexts> values = axis_of(setting, value, what(key));
  for (SettingTexts& texts : values) {
    for (std::string& text : texts) {
      setting.store(text, what(key));
      if (setting.path == PathKind::none) continue;
      const std::filesystem::path path = paths_.resolve(text);
      const bool bare = text.find('/') == std::string::npos;
      const bool is_name = setting.path == PathKind::file_or_name && bare;
      if (!is_name || std::filesystem::exists(path)) text = path.string();
    }
  }
  return values;
}

// Each entry gives the cells of the whole configuration with its keys in place of those there.
void Expansion::add_included(std::vector<SweepCell>& cells) const {
  const auto entries = document_.find("include");
  if (entries == document_.end()) return;
  object_list(*entries, what("include"));
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const json& entry = (*entries)[i];
    const std::string prefix = fmt::format("include.{}.", i);
    check_names(entry, prefix);
    json keys = document_;
    std::vector<json> tasks = task_list(keys[kTask], what(kTask));
    for (const auto& [key, value] : entry.items()) {
      for (json& task : tasks) task.erase(key);
      keys[key] = value;
    }
    if (!entry.contains(kTask)) keys[kTask] = tasks;
    for (const char* key : {"include", "exclude"}) keys.erase(key);
    add_cells(keys, prefix, cells);
  }
}

void Expansion::exclude(std::vector<SweepCell>& cells) const {
  const auto patterns = document_.find("exclude");
  if (patterns == document_.end()) return;
  object_list(*patterns, what("exclude"));
  std::vector<bool> gone(cells.size());
  for (std::size_t i = 0; i < patterns->size(); ++i) {
    const std::string prefix = fmt::format("exclude.{}.", i);
    check_names((*patterns)[i], prefix);
    bool any = false;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (!matches(cells[c], (*patterns)[i], prefix)) continue;
      gone[c] = any = true;
    }
    if (!any) config_error("{}: matches no cell", what(fmt::format("exclude.{}", i)));
  }
  std::size_t index = 0;
  std::erase_if(cells, [&](const SweepCell&) { return gone[index++]; });
}

bool Expansion::matches(const SweepCell& cell, const json& pattern,
                        const std::string& prefix) const {
  const SettingSet& settings = settings_of_(cell.task);
  return std::all_of(pattern.items().begin(), pattern.items().end(), [&](const auto& item) {
    const std::string key = prefix + item.key();
    const json wanted = item.value().is_array() ? item.value() : json::array({item.value()});
    if (item.key() == kTask) {
      return std::find(wanted.begin(), wanted.end(), json(cell.task)) != wanted.end();
    }
    if (item.key() == kPolicy) return matches_policy(cell, wanted, key);
    for (const Setting& setting : settings.all()) {
      if (setting.name != item.key()) continue;
      const SettingTexts* given = cell.find(setting.name);
      const SettingTexts value = given != nullptr ? *given : SettingTexts{setting.fallback};
      const auto values = axis(setting, item.value(), key);
      return std::find(values.begin(), values.end(), value) != values.end();
    }
    return false;  // a setting of another task
  });
}

// A string matches that very text, an object every policy of its name with its options.
bool Expansion::matches_policy(const SweepCell& cell, const json& wanted,
                               const std::string& key) const {
  return std::any_of(wanted.begin(), wanted.end(), [&](const json& one) {
    if (one.is_string()) return one == cell.policy;
    const PolicySpec spec = parse_policy(cell.policy);
    for (const std::string& text : policy_axis(one, what(key))) {
      const PolicySpec part = parse_policy(text);
      if (part.name == spec.name &&
          std::all_of(part.options.begin(), part.options.end(), [&](const auto& option) {
            return std::find(spec.options.begin(), spec.options.end(), option) !=
                   spec.options.end();
          })) {
        return true;
      }
    }
    return false;
  });
}

}  // namespace

const SettingTexts* SweepCell::find(std::string_view name) const {
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [&](const auto& setting) { return setting.first == name; });
  return found == settings.end() ? nullptr : &found->second;
}

std::filesystem::path SweepPaths::resolve(const std::string& text) const {
  constexpr std::string_view kCache = "$KVBENCH_CACHE/";
  if (text.starts_with("~/") && !home.empty()) return (home / text.substr(2)).lexically_normal();
  if (text.starts_with(kCache) && !cache.empty()) {
    return (cache / text.substr(kCache.size())).lexically_normal();
  }
  return (folder / text).lexically_normal();
}

std::vector<std::string> sweep_keys() {
  return {"$schema", "description", "out", kTask, "include", "exclude"};
}

SweepConfig expand_sweep(const json& document, const std::string& where, const SweepPaths& paths,
                         const TaskSettings& settings_of) {
  return Expansion(document, where, paths, settings_of).run();
}

}  // namespace kvbench
