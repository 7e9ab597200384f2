// Escapes what would garble a terminal or a log line.
#include "core/printable.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

namespace kvbench {
namespace {

// Bytes of the well-formed UTF-8 sequence at `at` (RFC 3629, table of section 4), or 0.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
  };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const std::uint8_t lead = byte(at);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(at + 1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const std::uint8_t low = lead == 0xE0 ? 0xA0 : 0x80;
    const std::uint8_t high = lead == 0xED ? 0x9F : 0xBF;
    return byte(at + 1) >= low && byte(at + 1) <= high && continues(at + 2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const std::uint8_t low = lead == 0xF0 ? 0x90 : 0x80;
    const std::uint8_t high = lead == 0xF4 ? 0x8F : 0xBF;
    const bool second = byte(at + 1) >= low && byte(at + 1) <= high;
    return second && continues(at + 2) && continues(at + 3) ? 4 : 0;
  }
  return 0;
}

// Characters that take no room or reorder the line: C1 controls, zero-width and direction marks,
// line separators, the byte order mark.
bool is_invisible(std::string_view character) {
  const auto between = [&](std::string_view low, std::string_view high) {
    return character >= low && character <= high;
  };
  return between("\xC2\x80", "\xC2\x9F") || between("\xE2\x80\x8B", "\xE2\x80\x8F") ||
         between("\xE2\x80\xA8", "\xE2\x80\xAE") || between("\xE2\x81\xA0", "\xE2\x81\xAF") ||
         character == "\xEF\xBB\xBF";
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    if (at >= max_bytes) return out + "...";
    const std::size_t length = utf8_length(text, at);
    const std::string_view character = text.substr(at, std::max<std::size_t>(length, 1));
    const auto byte = static_cast<std::uint8_t>(character[0]);
    if (length == 0 || byte < 0x20 || byte == 0x7F || is_invisible(character)) {
      for (const char c : character) out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(c));
    } else {
      out += character;
    }
    at += character.size();
  }
  return out;
}

}  // namespace kvbench
