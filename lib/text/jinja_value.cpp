// Definitions of jinja_value.hpp.
#include "text/jinja_value.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace kvbench {

bool JinjaValue::integer(std::int64_t& number) const {
  if (const bool* truth = as<bool>()) number = *truth ? 1 : 0;
  if (const auto* whole = as<std::int64_t>()) number = *whole;
  return as<bool>() != nullptr || as<std::int64_t>() != nullptr;
}

bool JinjaValue::number(double& number) const {
  if (const double* real = as<double>()) {
    number = *real;
    return true;
  }
  std::int64_t whole = 0;
  if (!integer(whole)) return false;
  number = static_cast<double>(whole);
  return true;
}

JinjaValue::JinjaValue(JinjaList list) {
  int below = 0;
  for (const JinjaValue& item : list) below = std::max(below, item.depth());
  value_ = std::make_shared<List>(List{std::move(list), below + 1});
}

JinjaValue::JinjaValue(JinjaDict dict) {
  int below = 0;
  for (const auto& [key, item] : dict) below = std::max(below, item.depth());
  value_ = std::make_shared<Dict>(Dict{std::move(dict), below + 1});
}

const JinjaList* JinjaValue::list() const {
  const auto* shared = as<std::shared_ptr<List>>();
  return shared == nullptr ? nullptr : &(*shared)->items;
}

const JinjaDict* JinjaValue::dict() const {
  const auto* shared = as<std::shared_ptr<Dict>>();
  return shared == nullptr ? nullptr : &(*shared)->members;
}

JinjaDict* JinjaValue::names() {
  const auto* space = as<JinjaNamespace>();
  return space == nullptr ? nullptr : space->members.get();
}

const JinjaDict* JinjaValue::names() const {
  const auto* space = as<JinjaNamespace>();
  return space == nullptr ? nullptr : space->members.get();
}

int JinjaValue::depth() const {
  if (const auto* items = as<std::shared_ptr<List>>()) return (*items)->depth;
  if (const auto* members = as<std::shared_ptr<Dict>>()) return (*members)->depth;
  return 0;
}

bool JinjaValue::truth() const {
  double value = 0.0;
  if (number(value)) return value != 0.0;
  if (const std::string* string = text()) return !string->empty();
  if (const JinjaList* items = list()) return !items->empty();
  if (const JinjaDict* members = dict()) return !members->empty();
  return as<JinjaFunction>() != nullptr || as<JinjaNamespace>() != nullptr;
}

const char* JinjaValue::kind() const {
  constexpr const char* kNames[] = {"undefined",   "none",      "a boolean", "a number",
                                    "a number",    "a string",  "a list",    "a dictionary",
                                    "a namespace", "a function"};
  return kNames[value_.index()];
}

bool compare_equal(const JinjaValue& a, const JinjaValue& b, bool& result) {
  double left = 0.0;
  double right = 0.0;
  if (a.number(left) && b.number(right)) {
    result = left == right;
  } else if (a.text() != nullptr && b.text() != nullptr) {
    result = *a.text() == *b.text();
  } else {
    result = (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
  }
  return (a.list() == nullptr || b.list() == nullptr) &&
         (a.dict() == nullptr || b.dict() == nullptr);
}

const JinjaValue* find_member(const JinjaDict& dict, const std::string& key) {
  const auto found = std::find_if(dict.begin(), dict.end(),
                                  [&](const auto& member) { return member.first == key; });
  return found == dict.end() ? nullptr : &found->second;
}

void set_member(JinjaDict& dict, const std::string& key, JinjaValue value) {
  for (auto& [known, old] : dict) {
    if (known != key) continue;
    old = std::move(value);
    return;
  }
  dict.emplace_back(key, std::move(value));
}

bool print(const JinjaValue& value, std::string& out) {
  if (value.is_undefined()) return true;
  if (value.is_none()) {
    out += "None";
  } else if (const bool* truth = value.as<bool>()) {
    out += *truth ? "True" : "False";
  } else if (const auto* whole = value.as<std::int64_t>()) {
    out += fmt::format("{}", *whole);
  } else if (const double* real = value.as<double>()) {
    out += fmt::format("{}", *real);
  } else if (const std::string* text = value.text()) {
    out += *text;
  } else {
    return false;
  }
  return true;
}

}  // namespace kvbench
