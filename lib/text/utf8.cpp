// UTF-8 decoding after table 3-7 of the Unicode standard (well-formed byte sequences).
#include "text/utf8.hpp"

#include <algorithm>

namespace kvbench {
namespace {

// What may follow a lead byte. Only the first continuation byte has a narrowed range.
struct Lead {
  std::size_t byte_count;  // 0: no lead byte
  unsigned char second_min;
  unsigned char second_max;
  unsigned char payload_mask;
};

Lead classify(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0, 0x7F};
  if (byte < 0xC2) return {0, 0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF, 0x1F};
  if (byte == 0xE0) return {3, 0xA0, 0xBF, 0x0F};
  if (byte == 0xED) return {3, 0x80, 0x9F, 0x0F};
  if (byte < 0xF0) return {3, 0x80, 0xBF, 0x0F};
  if (byte == 0xF0) return {4, 0x90, 0xBF, 0x07};
  if (byte < 0xF4) return {4, 0x80, 0xBF, 0x07};
  if (byte == 0xF4) return {4, 0x80, 0x8F, 0x07};
  return {0, 0, 0, 0};
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const Lead lead = classify(first);
  if (lead.byte_count == 0) return {Utf8Kind::invalid, 1, 0};
  char32_t code_point = first & lead.payload_mask;
  for (std::size_t i = 1; i < lead.byte_count; ++i) {
    if (i == text.size()) return {Utf8Kind::incomplete, i, 0};
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned char low = i == 1 ? lead.second_min : 0x80;
    const unsigned char high = i == 1 ? lead.second_max : 0xBF;
    if (byte < low || byte > high) return {Utf8Kind::invalid, i, 0};
    code_point = (code_point << 6) | (byte & 0x3Fu);
  }
  return {Utf8Kind::complete, lead.byte_count, code_point};
}

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind != Utf8Kind::complete) return at;
    at += step.byte_count;
  }
  return std::nullopt;
}

std::string replace_invalid_utf8(std::string_view text, std::size_t& count) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t valid = find_invalid_utf8(text).value_or(text.size());
    out.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) break;
    text.remove_prefix(utf8_step(text).byte_count);
    out.append(kReplacementCharacter);
    ++count;
  }
  return out;
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
    return;
  }
  if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
  } else {
    if (code_point < 0x10000) {
      put(0xE0 | (code_point >> 12));
    } else {
      put(0xF0 | (code_point >> 18));
      put(0x80 | ((code_point >> 12) & 0x3F));
    }
    put(0x80 | ((code_point >> 6) & 0x3F));
  }
  put(0x80 | (code_point & 0x3F));
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace kvbench
