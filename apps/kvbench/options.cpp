// Definitions of options.hpp.
#include "apps/kvbench/options.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace kvbench {
namespace {

void add_flag(CLI::App& command, Setting& setting, const std::string& name) {
  command.add_flag_callback(
      name, [&setting, name] { SettingSet::set(setting, "true", name); }, setting.help);
}

// `positional`: an argument without a name; one that repeats takes all words.
void add_value(CLI::App& command, Setting& setting, const std::string& name, bool positional) {
  const CLI::callback_t callback = [&setting, name](const CLI::results_t& results) {
    try {
      for (const std::string& text : results) SettingSet::set(setting, text, name);
    } catch (const ConfigError& error) {
      throw CLI::ValidationError(error.what(), CLI::ExitCodes::ConversionError);
    }
    return true;
  };
  CLI::Option* option = command.add_option(name, callback, setting.help);
  option->type_name(setting.type_name);
  option->expected(1);
  option->allow_extra_args(false);
  // Given twice is a fault, unless each is one value of several: which of the two was meant?
  if (setting.repeats) {
    option->take_all();
    if (positional) option->expected(-1);
  } else {
    option->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  }
  option->default_str(setting.fallback);
  option->required(setting.required);
}

}  // namespace

std::string option_name(const std::string& setting_name) {
  std::string name = "--" + setting_name;
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

void add_settings(CLI::App& command, SettingSet& settings, const std::string& positional) {
  for (Setting& setting : settings.all()) {
    const bool is_positional = setting.name == positional;
    const std::string name = is_positional ? positional : option_name(setting.name);
    if (setting.kind == SettingKind::flag) {
      add_flag(command, setting, name);
    } else {
      add_value(command, setting, name, is_positional);
    }
  }
}

}  // namespace kvbench
