// Axes of a sweep: a JSON value, list or range, taken apart into the values that cells have.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

#include "config/setting_json.hpp"

namespace kvbench {

inline constexpr std::size_t kMaxAxis = 100'000;  // values of one axis, and cells of a sweep

// {"from": 1, "to": 8, "step": 2} or {"from": 256, "to": 4096, "factor": 2}.
bool is_range(const nlohmann::json& value);
// The range's numbers, ends included where they are met; integers where all parts are integers.
std::vector<nlohmann::json> expand_range(const nlohmann::json& range, const std::string& what);

// The values of a setting: one, or several from a list or a range. A setting whose value is a list
// has an axis where it is a list of lists. Each is checked against the setting's kind.
std::vector<SettingTexts> axis_of(const Setting& setting, const nlohmann::json& value,
                                  const std::string& what);

// Policy texts of a string, an object or a list of both. Lists and ranges inside an object are
// axes; the one whose key is last in the alphabet moves fastest.
std::vector<std::string> policy_axis(const nlohmann::json& value, const std::string& what);

// Applies "a.b=c": the value is JSON where it parses, else text. Numbers in the path are places in
// a list. ConfigError where the path leads into something else.
void apply_override(nlohmann::json& document, const std::string& assignment);

}  // namespace kvbench
