// Settings from JSON: the value must be of the setting's own kind. "8", 8.0 and true are no
// integers, a number is no text, and null is never a value.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

#include "config/setting_set.hpp"

namespace kvbench {

// What SettingSet::set takes: one text, or one for each element of a setting that repeats.
using SettingTexts = std::vector<std::string>;

// Whether one value of the setting is a JSON list.
bool is_list_valued(const Setting& setting);
bool is_numeric(const Setting& setting);

// The texts of one value. ConfigError begins with `what`, and names what was expected and found.
// Ranges of numbers are checked by the setting when it is set.
SettingTexts setting_texts(const Setting& setting, const nlohmann::json& value,
                           const std::string& what);

}  // namespace kvbench
