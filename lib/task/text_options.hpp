// The settings that name a text or token ids, for every task that reads one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/setting_set.hpp"
#include "task/token_source.hpp"

namespace kvbench {

struct TextOptions {
  std::string data;
  std::vector<std::string> ids;
  std::string id_file;
  std::int64_t max_tokens = 0;
  std::string bos = "none";
  std::string specials = "text";
  std::string newline = "keep";
  std::string invalid_utf8 = "error";
  bool strip_bom = false;

  // data, ids, ids_file, tokens, bos, specials, newline, invalid_utf8, strip_bom.
  void declare(SettingSet& settings);
  // Reads ids_file. ConfigError unless exactly one of data and ids is there.
  TokenRequest resolve() const;
};

// "1,2,3": token ids; `what` names the setting in the ConfigError.
std::vector<std::int32_t> parse_ids(const std::string& text, const std::string& what);
// Ids from a file: integers separated by commas, blanks or line ends. DataError names the place.
std::vector<std::int32_t> read_id_file(const std::string& path);

}  // namespace kvbench
