// The byte-level alphabet as two small tables, built once.
#include "text/byte_symbols.hpp"

#include <array>

#include "text/utf8.hpp"

namespace kvbench {
namespace {

constexpr int kNoByte = -1;

struct Tables {
  std::array<std::string, 256> symbol_of_byte;
  std::array<int, 0x100 + 68> byte_of_code_point;  // kNoByte where the character is none
};

bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

const Tables& tables() {
  static const Tables built = [] {
    Tables t;
    t.byte_of_code_point.fill(kNoByte);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char32_t code_point = stands_for_itself(byte) ? byte : next++;
      append_utf8(code_point, t.symbol_of_byte[byte]);
      t.byte_of_code_point[code_point] = static_cast<int>(byte);
    }
    return t;
  }();
  return built;
}

}  // namespace

std::string_view byte_symbol(unsigned char byte) {
  return tables().symbol_of_byte[byte];
}

std::optional<unsigned char> byte_of_symbol(char32_t code_point) {
  const auto& table = tables().byte_of_code_point;
  if (code_point >= table.size() || table[code_point] == kNoByte) return std::nullopt;
  return static_cast<unsigned char>(table[code_point]);
}

void append_byte_symbols(std::string_view bytes, std::string& out) {
  const Tables& t = tables();
  for (const char byte : bytes) out.append(t.symbol_of_byte[static_cast<unsigned char>(byte)]);
}

namespace {

// The bytes that `token` spells, or nothing if a character is not of the alphabet.
std::optional<std::string> spelled_bytes(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const Utf8Step step = utf8_step(token);
    const auto byte = byte_of_symbol(step.code_point);
    if (step.kind != Utf8Kind::complete || !byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
    token.remove_prefix(step.byte_count);
  }
  return bytes;
}

}  // namespace

bool spelled_in_byte_symbols(std::string_view token) {
  return spelled_bytes(token).has_value();
}

std::string bytes_of_token(std::string_view token) {
  return spelled_bytes(token).value_or(std::string(token));
}

}  // namespace kvbench
