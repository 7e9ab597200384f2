// Patterns written for Oniguruma: the same matches, or a refusal.
#include "text/regex.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"
#include "text/regex_syntax.hpp"

namespace kvbench {
namespace {

using test::contains;
using test::error_text;
using Words = std::vector<std::string>;

Words matches(const std::string& pattern, const std::string& text) {
  RegexScratch scratch;
  std::vector<RegexSpan> spans;
  Regex::pattern(pattern, "test").find_all(text, scratch, spans);
  Words words;
  std::size_t covered = 0;
  for (const RegexSpan& span : spans) {
    CHECK(span.begin == covered);
    covered = span.end;
    if (span.is_match) words.push_back(text.substr(span.begin, span.end - span.begin));
  }
  CHECK(covered == text.size());
  return words;
}

TEST_CASE("white space, words and digits are Unicode's") {
  CHECK(matches("\\s+", "a\u00A0\u2003b\u0085\u2028c\u180Ed\u200Be") ==
        Words{"\u00A0\u2003", "\u0085\u2028"});
  CHECK(matches("\\S", "\u180E ") == Words{"\u180E"});
  CHECK(matches("\\w+", "a\u0301_b 9²\u203Fx-ⓐ") == Words{"a\u0301_b", "9", "\u203Fx", "ⓐ"});
  CHECK(matches("[^\\w\\s]", "a ²-") == Words{"²", "-"});
  CHECK(matches("\\d+", "1٣²Ⅷ") == Words{"1٣"});
  CHECK(matches("\\W", "a²") == Words{"²"});
}

TEST_CASE("a script is the Script property, without extensions") {
  CHECK(matches("\\p{Han}+", "日本語、々ー") == Words{"日本語", "々"});
  CHECK(matches("\\p{Katakana}", "ー。ア") == Words{"ア"});
  CHECK(matches("[\\p{^L}]", "a1") == Words{"1"});
}

TEST_CASE("case folding reaches characters outside ASCII") {
  CHECK(matches("(?i:'s|'ll)", "'S 'ſ 'Ll 'lL") == Words{"'S", "'ſ", "'Ll", "'lL"});
}

TEST_CASE("empty matches split, but do not follow a match at once") {
  CHECK(matches("x*", "axb") == Words{"", "x", ""});
  CHECK(matches("(?=b)", "abb") == Words{"", ""});
}

TEST_CASE("what PCRE2 reads differently is refused with the place") {
  for (const std::string pattern :
       {"a{1,3}+", "a{3}?", "a{,3}", "[a[b]]", "[a&&b]", "[]a]", "\\h", "\\bx", "(?m:.)", "a(?i)b",
        "(?<name>a)", "\\1", "\\X", "[\\W]", "\\pL", "x\\", "\\x{41"}) {
    CAPTURE(pattern);
    const std::string error =
        error_text<DataError>([&] { pcre2_from_oniguruma(pattern, "file: key k"); });
    CHECK(error.starts_with("file: key k: pattern \""));
    CHECK(contains(error, "is not supported"));
  }
  CHECK(contains(error_text<DataError>([] { Regex::pattern("(a", "here"); }), "here: pattern"));
  CHECK(contains(error_text<DataError>([] { Regex::pattern("\\p{Nope}", "here"); }), "here"));
}

TEST_CASE("a literal is no pattern") {
  RegexScratch scratch;
  std::vector<RegexSpan> spans;
  Regex::literal("a.", "test").find_all("aba.", scratch, spans);
  REQUIRE(spans.size() == 2);
  CHECK(spans[1].begin == 2);
  CHECK(spans[1].is_match);
}

// Catastrophic backtracking ends in an error, not in a wrong answer.
TEST_CASE("a matcher that runs into its limit is an error") {
  RegexScratch scratch;
  std::vector<RegexSpan> spans;
  const Regex regex = Regex::pattern("(?:a|aa)+[cd]", "here");
  const std::string text(60, 'a');
  CHECK(contains(error_text<DataError>([&] { regex.find_all(text, scratch, spans); }),
                 "here: matching at byte 0 of a text of 60 bytes failed"));
}

}  // namespace
}  // namespace kvbench
