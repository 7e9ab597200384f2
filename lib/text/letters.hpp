// Kinds of characters and lower case, by the Unicode tables.
#pragma once

#include <string>
#include <string_view>

namespace kvbench {

// Letters, numbers of all kinds and the underscore.
bool is_word_character(char32_t code_point);
// Decimal digits of any script.
bool is_decimal_digit(char32_t code_point);

// Of valid UTF-8, character by character, without regard to the language or to a final sigma.
std::string lower_case(std::string_view text);

}  // namespace kvbench
