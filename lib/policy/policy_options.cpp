// Checking a policy's options against its table.
#include "policy/policy_options.hpp"

#include <algorithm>

#include "config/parse_number.hpp"
#include "core/error.hpp"
#include "core/nearest_name.hpp"

namespace kvbench {
namespace {

bool is_choice(std::string_view choices, std::string_view value) {
  while (true) {
    const std::size_t bar = choices.find('|');
    if (choices.substr(0, bar) == value) return true;
    if (bar == std::string_view::npos) return false;
    choices = choices.substr(bar + 1);
  }
}

void check_value(const PolicyOption& option, const std::string& value, const std::string& policy) {
  const std::string what = fmt::format("policy '{}': key {}", policy, option.key);
  switch (option.kind) {
    case OptionKind::integer:
      parse_int(value, static_cast<std::int64_t>(option.min), static_cast<std::int64_t>(option.max),
                what);
      return;
    case OptionKind::real:
      parse_real(value, option.min, option.max, what);
      return;
    case OptionKind::choice:
      if (!is_choice(option.choices, value)) {
        config_error("{}: expected {}, found '{}'", what, option.choices, value);
      }
      return;
    case OptionKind::text:
    case OptionKind::path:
      return;
  }
}

// "kvpress=64|paper-p=32" and "kvpress": "64"; the fallback for a variant that is not there.
std::string_view default_of(const PolicyOption& option, std::string_view variant) {
  std::string_view rest = option.by_variant;
  while (!rest.empty()) {
    const std::size_t bar = rest.find('|');
    const std::string_view preset = rest.substr(0, bar);
    const std::size_t equals = preset.find('=');
    if (preset.substr(0, equals) == variant) return preset.substr(equals + 1);
    rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
  }
  return option.fallback;
}

void reject_unknown(const PolicySpec& spec, std::string_view name,
                    std::span<const PolicyOption> table) {
  std::vector<std::string> known;
  for (const PolicyOption& option : table) known.emplace_back(option.key);
  for (const auto& [key, value] : spec.options) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string nearest = nearest_name(key, known);
    std::string list;
    for (const std::string& valid : known) list += (list.empty() ? "" : ", ") + valid;
    config_error("policy '{}': key {} is not used by policy {}{}; its keys: {}", spec.text, key,
                 name, nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest),
                 list.empty() ? "none" : list);
  }
}

}  // namespace

PolicyOptions::PolicyOptions(const PolicySpec& spec, std::string_view name,
                             std::span<const PolicyOption> table)
    : policy_text_(spec.text) {
  reject_unknown(spec, name, table);
  std::string variant;  // precedes in the table what depends on it
  for (const PolicyOption& option : table) {
    const auto given = std::find_if(spec.options.begin(), spec.options.end(),
                                    [&](const auto& pair) { return pair.first == option.key; });
    if (given == spec.options.end() && option.fallback.empty()) {
      config_error("policy '{}': key {} is missing ({})", spec.text, option.key, option.summary);
    }
    const std::string value =
        given == spec.options.end() ? std::string(default_of(option, variant)) : given->second;
    check_value(option, value, spec.text);
    if (option.key == "variant") variant = value;
    values_.emplace_back(option.key, value);
  }
}

const std::string& PolicyOptions::text(std::string_view key) const {
  for (const auto& [known, value] : values_) {
    if (known == key) return value;
  }
  KVB_CHECK(false, "policy '{}' has no option {}", policy_text_, key);
  return values_.front().second;
}

std::int64_t PolicyOptions::integer(std::string_view key) const {
  return parse_int(text(key), INT64_MIN, INT64_MAX, key);
}

double PolicyOptions::real(std::string_view key) const {
  return parse_real(text(key), -1e300, 1e300, key);
}

std::vector<std::int32_t> PolicyOptions::ids(std::string_view key) const {
  std::vector<std::int32_t> ids;
  std::string_view rest = text(key);
  if (rest == "none") return ids;
  const std::string what = fmt::format("policy '{}': key {}", policy_text_, key);
  while (true) {
    const std::size_t dot = rest.find('.');
    ids.push_back(static_cast<std::int32_t>(parse_int(rest.substr(0, dot), 0, INT32_MAX, what)));
    if (dot == std::string_view::npos) return ids;
    rest = rest.substr(dot + 1);
  }
}

EvictWhen PolicyOptions::evict() const {
  return text("evict") == "before" ? EvictWhen::before : EvictWhen::after;
}

EvictTiming PolicyOptions::timing() const {
  const std::string& timing = text("timing");
  if (timing == "prefill") return EvictTiming::prefill;
  return timing == "chunked" ? EvictTiming::chunked : EvictTiming::decode;
}

PositionMode PolicyOptions::positions() const {
  return text("positions") == "original" ? PositionMode::original : PositionMode::cache_index;
}

}  // namespace kvbench
