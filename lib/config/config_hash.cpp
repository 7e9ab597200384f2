// Definitions of config/config_hash.hpp.
#include "config/config_hash.hpp"

#include <nlohmann/json.hpp>

#include "io/json_file.hpp"
#include "io/sha256.hpp"

namespace kvbench {

std::string canonical_json(const nlohmann::json& config) {
  // nlohmann::json keeps object keys in a std::map; a path with invalid UTF-8 must not throw.
  return config.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string config_hash(const nlohmann::json& config) {
  return sha256_hex(canonical_json(config));
}

std::string config_hash_of_text(const std::string& config_json) {
  return config_hash(parse_json(config_json, "configuration", {.errors = JsonErrors::config}));
}

}  // namespace kvbench
