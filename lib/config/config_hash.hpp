// The identity of a configuration: SHA-256 of its canonical JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace kvbench {

// Keys sorted by bytes, no blanks, shortest numbers that read back equal. 10, 10.0 and "10" differ.
std::string canonical_json(const nlohmann::json& config);

// 64 hex digits. Two configurations have the same hash when their canonical JSON is equal.
std::string config_hash(const nlohmann::json& config);
// Of JSON text; throws ConfigError when it does not parse.
std::string config_hash_of_text(const std::string& config_json);

}  // namespace kvbench
