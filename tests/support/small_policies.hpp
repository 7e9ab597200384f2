// Every registered policy at a budget of a few entries, with the files that some need. Walks the
// registry, so a new row is there by itself: windows, lags, sinks and the like become shares of the
// budget.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "policy/registry.hpp"
#include "tests/support/random_model.hpp"

namespace kvbench::test {

// The value of a resolved option; nothing for a policy without it.
inline std::optional<std::int64_t> option_of(const ConfiguredPolicy& policy,
                                             const std::string& key) {
  for (const auto& [known, value] : policy.options) {
    if (known == key) return std::stoll(value);
  }
  return std::nullopt;
}

// The policy with every option spelled out, as a user could write it.
inline std::string full_text(const ConfiguredPolicy& policy) {
  std::string text;
  for (const auto& [key, value] : policy.options) {
    text += fmt::format("{}{}={}", text.empty() ? ":" : ",", key, value);
  }
  return policy.name + text;
}

class SmallPolicies {
 public:
  // Files are written for models of this shape.
  explicit SmallPolicies(const RandomModelShape& shape) {
    Rng rng(11);
    std::vector<float> values(
        static_cast<std::size_t>(shape.n_layers * shape.n_kv_heads * shape.head_dim));
    for (float& value : values) value = static_cast<float>(2.0 * rng.uniform() - 1.0);
    SafetensorsBuilder file;
    file.add_f32("q_filters", {shape.n_layers, shape.n_kv_heads, shape.head_dim}, values);
    filters_ = directory_.write("filters.safetensors", file.bytes()).string();
  }

  // The policy of the row's usage string with a budget of so many entries; nothing where it says
  // that one or two entries are too few.
  std::optional<ConfiguredPolicy> make(const PolicyInfo& info, std::int64_t budget,
                                       const std::string& positions = "") const {
    PolicySpec spec = parse_policy(info.usage);
    for (const PolicyOption& option : usage_options(info)) {
      const std::string key(option.key);
      if (key == "filters") set(spec, key, filters_);
      if (key == "window" || key == "lag") {
        set(spec, key, std::max<std::int64_t>(static_cast<std::int64_t>(option.min), budget / 2));
      }
      // As the smaller part of a budget in two parts, and beside one budget.
      if (key == "sinks" || key == "heavy")
        set(spec, key, has(spec, key) ? budget / 2 : budget / 4);
      if (key == "capacity" || key == "length") set(spec, key, budget);
    }
    if (has(spec, "recent")) set(spec, "recent", budget - budget / 2);
    if (!positions.empty()) set(spec, "positions", positions);
    try {
      return make_policy(spec);
    } catch (const ConfigError&) {
      if (budget > 2) throw;
      return std::nullopt;
    }
  }

 private:
  static bool has(const PolicySpec& spec, const std::string& key) {
    return std::any_of(spec.options.begin(), spec.options.end(),
                       [&](const auto& pair) { return pair.first == key; });
  }
  template <class Value>
  static void set(PolicySpec& spec, const std::string& key, const Value& value) {
    erase(spec, key);
    spec.options.emplace_back(key, fmt::format("{}", value));
  }
  static void erase(PolicySpec& spec, const std::string& key) {
    std::erase_if(spec.options, [&](const auto& pair) { return pair.first == key; });
  }

  TempDir directory_;
  std::string filters_;
};

}  // namespace kvbench::test
