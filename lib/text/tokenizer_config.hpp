// What tokenizer_config.json and generation_config.json say about BOS and EOS.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.hpp"

namespace kvbench {

// Files that are absent leave everything empty.
struct TokenizerConfig {
  std::optional<bool> add_bos_token;
  std::optional<std::string> bos_token;  // spelling
  std::optional<std::string> eos_token;  // spelling
  std::vector<std::int32_t> eos_ids;     // eos_token_id of generation_config.json
  std::vector<AddedToken> added_tokens;  // of added_tokens_decoder, by id
  std::string file;                      // path of tokenizer_config.json
};

TokenizerConfig read_tokenizer_config(const std::filesystem::path& model_directory);

}  // namespace kvbench
