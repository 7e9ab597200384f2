// The byte-level alphabet: each byte as one printable character, so that a vocabulary of strings
// can hold any bytes (GPT-2's table: printable Latin-1 stands for itself, the other 68 bytes
// follow from U+0100 on).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvbench {

// The character (UTF-8) of a byte.
std::string_view byte_symbol(unsigned char byte);
// The byte of a character, if it is one of the alphabet.
std::optional<unsigned char> byte_of_symbol(char32_t code_point);

// `bytes` spelled in the alphabet, appended to `out`.
void append_byte_symbols(std::string_view bytes, std::string& out);
// Whether each character of `token` is one of the alphabet.
bool spelled_in_byte_symbols(std::string_view token);
// The bytes that `token` spells; a token with any other character stands for its own UTF-8.
std::string bytes_of_token(std::string_view token);

}  // namespace kvbench
