// Typed members of JSON objects, without conversions.
#include "io/json_reader.hpp"

#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/nearest_name.hpp"
#include "core/printable.hpp"

namespace kvbench {
namespace {

using nlohmann::json;

constexpr std::int64_t kInt64Min = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();

std::string describe(const json& value) {
  switch (value.type()) {
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      return fmt::format("an array of {}", value.size());
    case json::value_t::string:
      return fmt::format("the string \"{}\"", printable(*value.get_ptr<const std::string*>()));
    case json::value_t::number_float: {
      // An integer too large for 64 bits has become a double: show its digits, not 1.8e19.
      const auto number = value.get<double>();
      const bool is_large_integer = std::abs(number) >= 0x1p63 && std::abs(number) < 1e30;
      return is_large_integer ? fmt::format("{:.0f}", number) : value.dump();
    }
    default:
      return value.dump();
  }
}

std::string int_range(std::int64_t min, std::int64_t max) {
  if (min == kInt64Min && max == kInt64Max) return "an integer";
  if (max == kInt64Max) return fmt::format("an integer of at least {}", min);
  if (min == kInt64Min) return fmt::format("an integer of at most {}", max);
  return fmt::format("an integer from {} to {}", min, max);
}

std::string double_range(double min, double max) {
  constexpr double kMost = std::numeric_limits<double>::max();
  if (min <= -kMost && max >= kMost) return "a number";
  if (max >= kMost) return fmt::format("a number of at least {}", min);
  if (min <= -kMost) return fmt::format("a number of at most {}", max);
  return fmt::format("a number from {} to {}", min, max);
}

// The integer, if the value is one and fits into 64 signed bits.
std::optional<std::int64_t> as_int64(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(kInt64Max)) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return std::nullopt;
}

}  // namespace

JsonReader::JsonReader(const json& value, std::string where, JsonErrors errors, NullRule nulls)
    : object_(&value), where_(std::move(where)), errors_(errors), nulls_(nulls) {
  if (!value.is_object()) {
    throw_json_error(errors_, where_,
                     fmt::format("expected a JSON object, found {}", describe(value)));
  }
}

JsonReader::JsonReader(const json& value, const JsonReader& parent, std::string prefix)
    : object_(&value),
      where_(parent.where_),
      prefix_(std::move(prefix)),
      errors_(parent.errors_),
      nulls_(parent.nulls_) {}

Presence JsonReader::presence(std::string_view key) const {
  const json* value = find(key);
  if (value == nullptr) return Presence::absent;
  return value->is_null() ? Presence::null : Presence::value;
}

const json* JsonReader::find(std::string_view key) const {
  const auto member = object_->find(key);
  return member == object_->end() ? nullptr : &*member;
}

const json* JsonReader::find_value(std::string_view key) const {
  const json* value = find(key);
  const bool counts_as_absent =
      value != nullptr && value->is_null() && nulls_ == NullRule::as_absent;
  return counts_as_absent ? nullptr : value;
}

const json& JsonReader::require_value(std::string_view key, const std::string& expected) const {
  const json* value = find(key);
  if (value == nullptr) fail(key, fmt::format("missing; expected {}", expected));
  return *value;
}

void JsonReader::fail(std::string_view key, const std::string& message) const {
  throw_json_error(errors_, where_, fmt::format("key {}{}: {}", prefix_, printable(key), message));
}

void JsonReader::fail_type(std::string_view key, const std::string& expected,
                           const json& found) const {
  fail(key, fmt::format("expected {}, found {}", expected, describe(found)));
}

std::int64_t JsonReader::to_int(std::string_view key, const json& value, std::int64_t min,
                                std::int64_t max) const {
  const std::optional<std::int64_t> number = as_int64(value);
  if (!number || *number < min || *number > max) fail_type(key, int_range(min, max), value);
  return *number;
}

double JsonReader::to_double(std::string_view key, const json& value, double min,
                             double max) const {
  const double number = value.is_number() ? value.get<double>() : 0.0;
  const bool inside = std::isfinite(number) && number >= min && number <= max;
  if (!value.is_number() || !inside) fail_type(key, double_range(min, max), value);
  return number;
}

std::vector<std::int64_t> JsonReader::to_ints(std::string_view key, const json& value,
                                              std::int64_t min, std::int64_t max) const {
  if (!value.is_array()) fail_type(key, "an array of integers", value);
  std::vector<std::int64_t> numbers;
  numbers.reserve(value.size());
  for (const json& element : value) {
    numbers.push_back(to_int(fmt::format("{}[{}]", key, numbers.size()), element, min, max));
  }
  return numbers;
}

std::int64_t JsonReader::require_int(std::string_view key, std::int64_t min,
                                     std::int64_t max) const {
  return to_int(key, require_value(key, int_range(min, max)), min, max);
}

std::optional<std::int64_t> JsonReader::optional_int(std::string_view key, std::int64_t min,
                                                     std::int64_t max) const {
  const json* value = find_value(key);
  if (value == nullptr) return std::nullopt;
  return to_int(key, *value, min, max);
}

double JsonReader::require_double(std::string_view key, double min, double max) const {
  return to_double(key, require_value(key, double_range(min, max)), min, max);
}

std::optional<double> JsonReader::optional_double(std::string_view key, double min,
                                                  double max) const {
  const json* value = find_value(key);
  if (value == nullptr) return std::nullopt;
  return to_double(key, *value, min, max);
}

bool JsonReader::require_bool(std::string_view key) const {
  const json& value = require_value(key, "true or false");
  if (!value.is_boolean()) fail_type(key, "true or false", value);
  return value.get<bool>();
}

std::optional<bool> JsonReader::optional_bool(std::string_view key) const {
  if (find_value(key) == nullptr) return std::nullopt;
  return require_bool(key);
}

std::string JsonReader::require_string(std::string_view key) const {
  const json& value = require_value(key, "a string");
  if (!value.is_string()) fail_type(key, "a string", value);
  return value.get<std::string>();
}

std::optional<std::string> JsonReader::optional_string(std::string_view key) const {
  if (find_value(key) == nullptr) return std::nullopt;
  return require_string(key);
}

std::vector<std::int64_t> JsonReader::require_ints(std::string_view key, std::int64_t min,
                                                   std::int64_t max) const {
  return to_ints(key, require_value(key, "an array of integers"), min, max);
}

std::optional<std::vector<std::int64_t>> JsonReader::optional_ints(std::string_view key,
                                                                   std::int64_t min,
                                                                   std::int64_t max) const {
  const json* value = find_value(key);
  if (value == nullptr) return std::nullopt;
  return to_ints(key, *value, min, max);
}

std::optional<std::vector<std::int64_t>> JsonReader::optional_int_or_ints(std::string_view key,
                                                                          std::int64_t min,
                                                                          std::int64_t max) const {
  const json* value = find_value(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) return std::vector<std::int64_t>{to_int(key, *value, min, max)};
  return to_ints(key, *value, min, max);
}

JsonReader JsonReader::require_object(std::string_view key) const {
  const json& value = require_value(key, "an object");
  if (!value.is_object()) fail_type(key, "an object", value);
  return JsonReader(value, *this, fmt::format("{}{}.", prefix_, key));
}

std::optional<JsonReader> JsonReader::optional_object(std::string_view key) const {
  if (find_value(key) == nullptr) return std::nullopt;
  return require_object(key);
}

std::vector<std::string> JsonReader::names() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : object_->items()) names.push_back(key);
  return names;
}

void JsonReader::reject_unknown_keys(std::span<const std::string> allowed) const {
  for (const auto& [key, value] : object_->items()) {
    bool known = false;
    std::string choices;
    for (const std::string& name : allowed) {
      known = known || key == name;
      choices += (choices.empty() ? "" : ", ") + name;
    }
    if (known) continue;
    const std::string nearest = nearest_name(key, allowed);
    const std::string advice = nearest.empty() ? fmt::format("valid keys: {}", choices)
                                               : fmt::format("did you mean {}?", nearest);
    throw_json_error(errors_, where_,
                     fmt::format("unknown key {}{} ({})", prefix_, printable(key), advice));
  }
}

}  // namespace kvbench
