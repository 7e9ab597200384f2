// Policy strings, taken apart: "sink4+1020:positions=original" is the policy `sink` with
// sinks=4, recent=1020, positions=original. Which names and keys exist is the policy registry's
// business, not this file's.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvbench {

struct PolicySpec {
  std::string text;                                          // as the user wrote it
  std::string name;                                          // of the policy
  std::vector<std::pair<std::string, std::string>> options;  // key, value; in order, keys unique
};

// Understands NAME[:key=value,...] and the short forms windowN, sinkS+R and recomputeN, which may
// be followed by further keys. ConfigError for anything else.
PolicySpec parse_policy(std::string_view text);

// The same from JSON: a string as above, or an object {"name": ..., key: value, ...} whose values
// are strings, integers, finite numbers or booleans.
PolicySpec parse_policy(const nlohmann::json& json, const std::string& where);

}  // namespace kvbench
