// Kinds of characters and lower case.
#include "text/letters.hpp"

#include <doctest/doctest.h>

namespace kvbench {
namespace {

TEST_CASE("word characters: letters and numbers of any script, and the underscore") {
  for (const char32_t c : U"aZ_9\u00E9\u0416\u4E2D\u0661\u2163\u00B2") {
    if (c != U'\0') CHECK(is_word_character(c));
  }
  for (const char32_t c : U" -.'\u0301\u3002\u00AB\u20AC\u00A0") CHECK_FALSE(is_word_character(c));
}

TEST_CASE("decimal digits: of any script, but neither fractions nor superscripts") {
  for (const char32_t c : {U'0', U'9', U'\u0661', U'\uFF17'}) CHECK(is_decimal_digit(c));
  for (const char32_t c : {U'a', U'\u00B2', U'\u00BD', U'\u2163', U'\u4E09'}) {
    CHECK_FALSE(is_decimal_digit(c));
  }
}

TEST_CASE("lower case: character by character") {
  CHECK(lower_case("") == "");
  CHECK(lower_case("A-\xC3\x89\xD0\x96 z9") == "a-\xC3\xA9\xD0\xB6 z9");
  CHECK(lower_case("\xC4\xB0") == "i\xCC\x87");   // I with a dot
  CHECK(lower_case("A\xCE\xA3") == "a\xCF\x83");  // no final sigma
  CHECK(lower_case("\xE4\xB8\xAD") == "\xE4\xB8\xAD");
}

}  // namespace
}  // namespace kvbench
