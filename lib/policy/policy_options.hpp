// The options of a policy: a table that documents them, and the values of one run checked
// against it. Help, listings and records are generated from the same table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/policy_spec.hpp"
#include "policy/eviction_policy.hpp"

namespace kvbench {

enum class OptionKind : std::uint8_t { integer, real, choice, text, path };

struct PolicyOption {
  std::string_view key;
  OptionKind kind;
  std::string_view fallback;  // default value as text; empty: the option must be given
  double min = 0.0;           // integer and real: inclusive range
  double max = 0.0;
  std::string_view choices;  // choice: "after|before"
  std::string_view summary;  // with the unit
  // Defaults under presets of the key `variant`: "kvpress=64|paper-p=32".
  std::string_view by_variant = {};
};

// Options that every decode-time policy shares.
constexpr PolicyOption evict_option() {
  return {"evict",
          OptionKind::choice,
          "after",
          0,
          0,
          "after|before",
          "make room after a step's forward (as published code does), or before it"};
}
constexpr PolicyOption positions_option(std::string_view fallback) {
  return {"positions",
          OptionKind::choice,
          fallback,
          0,
          0,
          "original|cache_index",
          "rotary position: the token's place in the text, or the entry's place in the cache"};
}
constexpr PolicyOption timing_option(std::string_view fallback) {
  return {"timing",
          OptionKind::choice,
          fallback,
          0,
          0,
          "prefill|decode|chunked",
          "act once after the prompt; then at decode steps too; or after each prompt chunk"};
}
// For policies whose heads or layers keep different numbers of entries.
constexpr PolicyOption original_positions_option() {
  return {"positions",
          OptionKind::choice,
          "original",
          0,
          0,
          "original",
          "rotary position: the token's place in the text (places in the cache would differ by "
          "head or layer)"};
}
constexpr double kMaxEntries = 1e9;
constexpr PolicyOption interval_option() {
  return {"interval",
          OptionKind::integer,
          "1",
          1,
          kMaxEntries,
          "",
          "timing=decode: steps from one eviction to the next"};
}

// Values of every option of the table: given ones checked, absent ones at their default.
class PolicyOptions {
 public:
  // ConfigError names the policy, the key, what was expected and the nearest valid key.
  PolicyOptions(const PolicySpec& spec, std::string_view name, std::span<const PolicyOption> table);

  std::int64_t integer(std::string_view key) const;
  double real(std::string_view key) const;
  const std::string& text(std::string_view key) const;
  // Token ids with dots between them, "198.42"; "none": no ids.
  std::vector<std::int32_t> ids(std::string_view key) const;
  EvictWhen evict() const;
  EvictTiming timing() const;
  PositionMode positions() const;

  const std::string& policy_text() const { return policy_text_; }
  // All keys and values, in the table's order.
  const std::vector<std::pair<std::string, std::string>>& resolved() const { return values_; }

 private:
  std::string policy_text_;
  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace kvbench
