// Definitions of letters.hpp, on utf8proc.
#include "text/letters.hpp"

#include <utf8proc.h>

#include "text/utf8.hpp"

namespace kvbench {

bool is_word_character(char32_t code_point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return true;
    default:
      return code_point == U'_';
  }
}

bool is_decimal_digit(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point)) == UTF8PROC_CATEGORY_ND;
}

std::string lower_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    text.remove_prefix(step.byte_count);
    if (step.code_point == 0x130) {
      out.append("i\xCC\x87");  // the only character whose lower case is two characters
    } else {
      const auto lower = utf8proc_tolower(static_cast<utf8proc_int32_t>(step.code_point));
      append_utf8(static_cast<char32_t>(lower), out);
    }
  }
  return out;
}

}  // namespace kvbench
