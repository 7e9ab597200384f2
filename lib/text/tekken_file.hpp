// The content of a tekken.json, Mistral's tokenizer format: bytes by rank, a pattern, special
// tokens. The rules are those of the package mistral-common.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/added_tokens.hpp"

namespace kvbench {

struct TekkenFile {
  std::string version;               // "v3"
  std::string pattern;               // cuts a text into words
  std::vector<AddedToken> specials;  // [id]; the ids from specials.size() on are those of `tokens`
  std::vector<std::string> tokens;   // [rank] bytes; the first 256 are the single bytes
};

// DataError that names `file` and the key for anything that is malformed or not supported.
TekkenFile read_tekken_file(const nlohmann::json& document, const std::string& file);

}  // namespace kvbench
