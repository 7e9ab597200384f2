// The one strict JSON parser: safetensors headers, config.json, tokenizer.json, sweeps.
// Strict means: one value, no duplicate keys, bounded nesting, valid UTF-8, no NUL, no comments,
// no trailing commas, no number that overflows. Every error has file, line and column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace kvbench {

// Which error a bad document raises: ConfigError (what the user asked for) or DataError (what a
// checkpoint or corpus holds).
enum class JsonErrors : std::uint8_t { config, data };

struct JsonOptions {
  bool allow_bom = false;  // accept one UTF-8 byte order mark in front
  JsonErrors errors = JsonErrors::data;
  std::size_t max_depth = 64;  // nested arrays and objects
  std::size_t max_array_length = std::numeric_limits<std::size_t>::max();
};

// Parses one JSON document; `where` (normally the path) starts every message.
nlohmann::json parse_json(std::string_view text, const std::string& where,
                          const JsonOptions& options = {});
nlohmann::json read_json_file(const std::filesystem::path& path, const JsonOptions& options = {});

// Throws ConfigError or DataError with "where: message".
[[noreturn]] void throw_json_error(JsonErrors errors, const std::string& where,
                                   const std::string& message);

}  // namespace kvbench
