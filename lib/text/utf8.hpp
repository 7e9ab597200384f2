// UTF-8: strict validation, code points, and replacement of bad bytes by U+FFFD.
// "Bad part" is the maximal subpart of the Unicode standard (section 3.9), the unit that Rust's
// from_utf8_lossy and Python's errors="replace" replace too.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kvbench {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Kind : unsigned char {
  complete,    // one whole character
  invalid,     // a bad part
  incomplete,  // the text ends inside what may be a character
};

struct Utf8Step {
  Utf8Kind kind;
  std::size_t byte_count;  // of the character, the bad part, or all that is left
  char32_t code_point;     // only of a complete character
};

// The first character or bad part of `text`, which is not empty.
Utf8Step utf8_step(std::string_view text);

// Byte offset of the first bad part, or nothing when `text` is valid.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

// `text` with U+FFFD for each bad part; `count` grows by their number.
std::string replace_invalid_utf8(std::string_view text, std::size_t& count);

void append_utf8(char32_t code_point, std::string& out);

// Unicode White_Space.
bool is_white_space(char32_t code_point);

// First byte of the last character of a valid, non-empty text.
std::size_t last_character(std::string_view text);

}  // namespace kvbench
