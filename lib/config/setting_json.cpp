// Definitions of config/setting_json.hpp.
#include "config/setting_json.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/printable.hpp"

namespace kvbench {
namespace {

using nlohmann::json;

[[noreturn]] void reject(const std::string& what, const std::string& expected, const json& found) {
  const std::string text = found.dump(-1, ' ', false, json::error_handler_t::replace);
  config_error("{}: expected {}, found {}", what, expected, printable(text, 60));
}

std::string integer_text(const json& value, const std::string& what, const std::string& expected) {
  if (!value.is_number_integer()) reject(what, expected, value);
  return value.dump();
}

std::string real_text(const json& value, const std::string& what, const std::string& expected) {
  if (!value.is_number()) reject(what, expected, value);
  return value.dump();
}

std::string string_text(const json& value, const std::string& what, const std::string& expected) {
  if (!value.is_string()) reject(what, expected, value);
  return value.get<std::string>();
}

// "1,2,3" from [1, 2, 3].
template <class ElementText>
std::string joined(const json& value, const std::string& what, const std::string& expected,
                   ElementText&& element_text) {
  if (!value.is_array() || value.empty()) reject(what, expected, value);
  std::string text;
  for (const json& element : value) {
    if (!text.empty()) text += ',';
    text += element_text(element, what, expected);
  }
  return text;
}

}  // namespace

bool is_list_valued(const Setting& setting) {
  return setting.repeats || setting.kind == SettingKind::integers ||
         setting.kind == SettingKind::reals;
}

bool is_numeric(const Setting& setting) {
  return setting.kind == SettingKind::integer || setting.kind == SettingKind::real ||
         setting.kind == SettingKind::integers || setting.kind == SettingKind::reals;
}

SettingTexts setting_texts(const Setting& setting, const json& value, const std::string& what) {
  if (setting.repeats) {
    const std::string expected = "a text or a list of texts";
    if (!value.is_array()) return {string_text(value, what, expected)};
    if (value.empty()) reject(what, expected, value);
    SettingTexts texts;
    for (const json& element : value) texts.push_back(string_text(element, what, expected));
    return texts;
  }
  switch (setting.kind) {
    case SettingKind::flag:
      if (!value.is_boolean()) reject(what, "true or false", value);
      return {value.dump()};
    case SettingKind::integer:
      return {integer_text(
          value, what, fmt::format("an integer from {:.0f} to {:.0f}", setting.min, setting.max))};
    case SettingKind::real:
      return {
          real_text(value, what, fmt::format("a number from {} to {}", setting.min, setting.max))};
    case SettingKind::text:
    case SettingKind::choice:
      return {string_text(value, what, "a text")};
    case SettingKind::integers:
      return {joined(value, what, "a list of integers", integer_text)};
    case SettingKind::reals:
      return {joined(value, what, "a list of numbers", real_text)};
  }
  config_error("{}: a setting of unknown kind", what);
}

}  // namespace kvbench
