// Typed reading of a JSON object without lenient conversions: 8.9, true, "8" and 1e1 are no
// integers, nothing wraps, and every error names file, key, what was expected and what was found.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/json_file.hpp"

namespace kvbench {

enum class Presence : std::uint8_t { absent, null, value };

// What the optional_* readers make of a key whose value is null: an error (our own
// configuration files), or the same as an absent key (config.json of checkpoints, where null is
// Python's None). `presence` tells the three apart under either rule.
enum class NullRule : std::uint8_t { refuse, as_absent };

// Reads the members of one object. It refers to the object, which must outlive it.
// All ranges are inclusive. Keys in messages are dotted from the document's root: snapkv.kernel.
class JsonReader {
 public:
  // Throws when `value` is no object. `where` is normally the path of the file.
  JsonReader(const nlohmann::json& value, std::string where, JsonErrors errors,
             NullRule nulls = NullRule::refuse);

  Presence presence(std::string_view key) const;
  // All keys of the object.
  std::vector<std::string> names() const;
  // The raw member (it may be null), or nullptr when absent.
  const nlohmann::json* find(std::string_view key) const;

  std::int64_t require_int(std::string_view key, std::int64_t min, std::int64_t max) const;
  std::optional<std::int64_t> optional_int(std::string_view key, std::int64_t min,
                                           std::int64_t max) const;
  // Any finite JSON number, integers included.
  double require_double(std::string_view key, double min, double max) const;
  std::optional<double> optional_double(std::string_view key, double min, double max) const;
  bool require_bool(std::string_view key) const;
  std::optional<bool> optional_bool(std::string_view key) const;
  std::string require_string(std::string_view key) const;
  std::optional<std::string> optional_string(std::string_view key) const;
  // An array of integers, each inside the range.
  std::vector<std::int64_t> require_ints(std::string_view key, std::int64_t min,
                                         std::int64_t max) const;
  std::optional<std::vector<std::int64_t>> optional_ints(std::string_view key, std::int64_t min,
                                                         std::int64_t max) const;
  // As optional_ints, and a bare integer is a list of one (eos_token_id).
  std::optional<std::vector<std::int64_t>> optional_int_or_ints(std::string_view key,
                                                                std::int64_t min,
                                                                std::int64_t max) const;
  // A reader of a nested object, with the same rules.
  JsonReader require_object(std::string_view key) const;
  std::optional<JsonReader> optional_object(std::string_view key) const;

  // Throws on the first key that is not in `allowed`, with the nearest valid key.
  void reject_unknown_keys(std::span<const std::string> allowed) const;

  // Throws "where: key <dotted key>: message".
  [[noreturn]] void fail(std::string_view key, const std::string& message) const;

  const std::string& where() const { return where_; }

 private:
  JsonReader(const nlohmann::json& value, const JsonReader& parent, std::string prefix);
  const nlohmann::json* find_value(std::string_view key) const;
  const nlohmann::json& require_value(std::string_view key, const std::string& expected) const;
  [[noreturn]] void fail_type(std::string_view key, const std::string& expected,
                              const nlohmann::json& found) const;
  std::int64_t to_int(std::string_view key, const nlohmann::json& value, std::int64_t min,
                      std::int64_t max) const;
  double to_double(std::string_view key, const nlohmann::json& value, double min, double max) const;
  std::vector<std::int64_t> to_ints(std::string_view key, const nlohmann::json& value,
                                    std::int64_t min, std::int64_t max) const;

  const nlohmann::json* object_;
  std::string where_;
  std::string prefix_;  // "" at the root, "snapkv." inside
  JsonErrors errors_;
  NullRule nulls_;
};

}  // namespace kvbench
