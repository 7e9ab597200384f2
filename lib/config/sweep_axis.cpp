// Definitions of config/sweep_axis.hpp.
#include "config/sweep_axis.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "config/parse_number.hpp"
#include "config/policy_spec.hpp"
#include "core/error.hpp"
#include "io/json_file.hpp"

namespace kvbench {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxWhole = INT64_C(1) << 53;  // a double holds it exactly
constexpr const char* kRangeForm =
    R"({"from": A, "to": B, "step": S} or "factor" in place of "step")";

double range_part(const json& range, const char* key, const std::string& what) {
  const json& part = range.at(key);
  if (!part.is_number() || std::abs(part.get<double>()) > static_cast<double>(kMaxWhole)) {
    config_error("{}.{}: expected a number, found {}", what, key, part.dump());
  }
  return part.get<double>();
}

// Sums of decimal steps as they are written: 0.1 + 2 * 0.1 is 0.3.
double rounded(double value) {
  return parse_real(fmt::format("{:.12g}", value), -std::numeric_limits<double>::max(),
                    std::numeric_limits<double>::max(), "range");
}

// A list with its ranges replaced by their numbers.
json without_ranges(const json& value, const std::string& what) {
  if (is_range(value)) return expand_range(value, what);
  if (!value.is_array()) return value;
  json list = json::array();
  for (const json& element : value) {
    if (is_range(element)) {
      for (json& number : expand_range(element, what)) list.push_back(std::move(number));
    } else {
      list.push_back(element);
    }
  }
  return list;
}

void add_policies(const json& value, const std::string& what, std::vector<std::string>& texts) {
  if (value.is_string()) {
    texts.push_back(value.get<std::string>());
    return;
  }
  if (!value.is_object() || value.contains("from")) {
    config_error("{}: expected a policy string or an object with \"name\", found {}", what,
                 value.dump());
  }
  std::vector<json> expanded{json::object()};
  for (const auto& [key, given] : value.items()) {
    json choices = without_ranges(given, fmt::format("{}.{}", what, key));
    if (!choices.is_array()) choices = json::array({choices});
    if (choices.empty()) config_error("{}.{}: an empty list", what, key);
    if (choices.size() > kMaxAxis / expanded.size()) {
      config_error("{}: more than {} policies", what, kMaxAxis);
    }
    std::vector<json> next;
    for (const json& policy : expanded) {
      for (const json& choice : choices) {
        next.push_back(policy);
        next.back()[key] = choice;
      }
    }
    expanded = std::move(next);
  }
  for (const json& policy : expanded) texts.push_back(parse_policy(policy, what).text);
}

json override_value(const std::string& text) {
  try {
    return parse_json(text, "--set", {.errors = JsonErrors::config});
  } catch (const ConfigError&) {
    return text;  // plain words need no quotes on a command line
  }
}

}  // namespace

bool is_range(const json& value) {
  return value.is_object() && value.contains("from");
}

std::vector<json> expand_range(const json& range, const std::string& what) {
  const bool by_factor = range.contains("factor");
  const char* move = by_factor ? "factor" : "step";
  if (range.size() != 3 || !range.contains("to") || !range.contains(move)) {
    config_error("{}: expected a range {}, found {}", what, kRangeForm, range.dump());
  }
  const double from = range_part(range, "from", what);
  const double to = range_part(range, "to", what);
  const double by = range_part(range, move, what);
  if (to < from || (by_factor ? by <= 1 || from <= 0 : by <= 0)) {
    config_error("{}: the range {} does not rise from \"from\" to \"to\"", what, range.dump());
  }
  const bool whole = range.at("from").is_number_integer() && range.at(move).is_number_integer() &&
                     range.at("to").is_number_integer();
  const double end = to + 1e-9 * std::abs(to);
  std::vector<json> values;
  double value = from;
  for (std::size_t i = 0; value <= end; ++i) {
    if (i == kMaxAxis) config_error("{}: a range of more than {} values", what, kMaxAxis);
    values.push_back(whole ? json(static_cast<std::int64_t>(value)) : json(rounded(value)));
    value = by_factor ? value * by : from + static_cast<double>(i + 1) * by;
  }
  return values;
}

std::vector<SettingTexts> axis_of(const Setting& setting, const json& value,
                                  const std::string& what) {
  std::vector<SettingTexts> axis;
  if (is_list_valued(setting)) {
    const bool is_axis = value.is_array() && !value.empty() && value.front().is_array();
    const json values = is_axis ? value : json::array({value});
    for (const json& one : values) {
      const json list = is_numeric(setting) ? without_ranges(one, what) : one;
      axis.push_back(setting_texts(setting, list, what));
    }
    return axis;
  }
  json values = is_numeric(setting) ? without_ranges(value, what) : value;
  if (!values.is_array()) values = json::array({values});
  if (values.empty()) config_error("{}: an empty list", what);
  for (const json& one : values) axis.push_back(setting_texts(setting, one, what));
  return axis;
}

std::vector<std::string> policy_axis(const json& value, const std::string& what) {
  std::vector<std::string> texts;
  if (!value.is_array()) {
    add_policies(value, what, texts);
    return texts;
  }
  if (value.empty()) config_error("{}: an empty list", what);
  for (const json& policy : value) add_policies(policy, what, texts);
  return texts;
}

void apply_override(json& document, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    config_error("--set {}: expected KEY=VALUE or KEY.KEY=VALUE", assignment);
  }
  json* place = &document;
  const std::string path = assignment.substr(0, equals);
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t dot = std::min(path.find('.', start), path.size());
    const std::string key = path.substr(start, dot - start);
    if (place->is_array()) {
      const auto last = static_cast<std::int64_t>(place->size()) - 1;
      place = &(*place)[static_cast<std::size_t>(parse_int(key, 0, last, "--set " + path))];
    } else if (place->is_object() && !key.empty()) {
      place = &(*place)[key];
      // A new object on the way; the last key takes the value below.
      if (place->is_null() && dot != path.size()) *place = json::object();
    } else {
      config_error("--set {}: \"{}\" is no key of an object or place in a list", path, key);
    }
    start = dot + 1;
  }
  *place = override_value(assignment.substr(equals + 1));
}

}  // namespace kvbench
