// Splitting policy strings; no knowledge of particular policies beyond the three short forms.
#include "config/policy_spec.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace kvbench {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_';
  });
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

// "window256" -> name "window", rest "256"; the rest is empty where nothing follows the name.
std::pair<std::string_view, std::string_view> split_at_digit(std::string_view head) {
  const auto digit = std::find_if(head.begin(), head.end(), is_digit);
  const auto n = static_cast<std::size_t>(digit - head.begin());
  return {head.substr(0, n), head.substr(n)};
}

// Fills name and options from the part before ':'.
void parse_head(std::string_view head, PolicySpec& spec) {
  const auto [letters, rest] = split_at_digit(head);
  const std::size_t plus = rest.find('+');
  if (letters == "sink" && plus != std::string_view::npos) {
    const std::string_view sinks = rest.substr(0, plus);
    const std::string_view recent = rest.substr(plus + 1);
    if (!is_number(sinks) || !is_number(recent)) {
      config_error("policy '{}': expected sinkS+R with two numbers, as in sink4+1020", spec.text);
    }
    spec.name = "sink";
    spec.options = {{"sinks", std::string(sinks)}, {"recent", std::string(recent)}};
    return;
  }
  if ((letters == "window" || letters == "recompute") && is_number(rest)) {
    spec.name = letters;
    spec.options = {{letters == "window" ? "capacity" : "length", std::string(rest)}};
    return;
  }
  if (!is_name(head)) {
    config_error(
        "policy '{}': expected NAME or NAME:key=value,... or one of the short forms windowN, "
        "sinkS+R, recomputeN",
        spec.text);
  }
  spec.name = head;
}

void add_option(PolicySpec& spec, const std::string& key, const std::string& value) {
  for (const auto& [known, unused] : spec.options) {
    if (known == key) config_error("policy '{}': key {} is given twice", spec.text, key);
  }
  spec.options.emplace_back(key, value);
}

// An option's value as it stands in a policy's text. What is quoted there is a text: neither a
// number nor several options.
std::string option_text(const nlohmann::json& value, const std::string& what) {
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (!value.is_string()) {
    config_error("{}: expected a string, number or boolean, found {}", what, value.dump());
  }
  auto text = value.get<std::string>();
  const nlohmann::json read = nlohmann::json::parse(text, nullptr, false);
  if (read.is_number() || read.is_boolean()) {
    config_error("{}: expected a number or boolean without quotes, found {}", what, value.dump());
  }
  if (text.find(',') != std::string::npos) {
    config_error("{}: expected one value, found {}", what, value.dump());
  }
  return text;
}

}  // namespace

PolicySpec parse_policy(std::string_view text) {
  PolicySpec spec;
  spec.text = text;
  const std::size_t colon = text.find(':');
  parse_head(text.substr(0, colon), spec);
  if (colon == std::string_view::npos) return spec;
  std::string_view rest = text.substr(colon + 1);
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view pair = rest.substr(0, comma);
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == pair.size()) {
      config_error("policy '{}': expected key=value, found '{}'", spec.text, pair);
    }
    add_option(spec, std::string(pair.substr(0, equals)), std::string(pair.substr(equals + 1)));
    if (comma == std::string_view::npos) return spec;
    rest = rest.substr(comma + 1);
  }
}

PolicySpec parse_policy(const nlohmann::json& json, const std::string& where) {
  if (json.is_string()) return parse_policy(json.get<std::string>());
  const auto name = json.is_object() ? json.find("name") : json.end();
  if (!json.is_object() || name == json.end() || !name->is_string()) {
    config_error("{}: key policy: expected a policy string or an object with \"name\", found {}",
                 where, json.dump());
  }
  PolicySpec spec;
  spec.text = name->get<std::string>();
  parse_head(spec.text, spec);
  const std::size_t from_name = spec.options.size();
  for (const auto& [key, value] : json.items()) {
    if (key == "name") continue;
    add_option(spec, key, option_text(value, fmt::format("{}: key policy.{}", where, key)));
  }
  // The text names the whole policy wherever it came from.
  for (std::size_t i = from_name; i < spec.options.size(); ++i) {
    const auto& [key, value] = spec.options[i];
    spec.text += fmt::format("{}{}={}", i == from_name ? ":" : ",", key, value);
  }
  return spec;
}

}  // namespace kvbench
