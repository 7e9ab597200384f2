// Normalizers, one type at a time. Results are the Unicode standard's and the reference library's.
#include "text/normalizer.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvbench {
namespace {

using nlohmann::json;

std::string normalized(const json& spec, const std::string& text) {
  RegexScratch scratch;
  return Normalizer(spec, "test").apply(text, scratch);
}

TEST_CASE("the four Unicode normal forms") {
  struct Row {
    std::string text, nfc, nfd, nfkc, nfkd;
  };
  const std::vector<Row> rows = {
      {"abc", "abc", "abc", "abc", "abc"},
      {"cafe\u0301!", "caf\u00E9!", "cafe\u0301!", "caf\u00E9!", "cafe\u0301!"},
      {"\uFB01", "\uFB01", "\uFB01", "fi", "fi"},
      {"\u212B", "\u00C5", "A\u030A", "\u00C5", "A\u030A"},
      {"\u1100\u1161\u11A8", "\uAC01", "\u1100\u1161\u11A8", "\uAC01", "\u1100\u1161\u11A8"},
      // Marks are put in the order of their classes before they are joined.
      {"q\u0307\u0323", "q\u0323\u0307", "q\u0323\u0307", "q\u0323\u0307", "q\u0323\u0307"},
      {"d\u0307\u0323", "\u1E0D\u0307", "d\u0323\u0307", "\u1E0D\u0307", "d\u0323\u0307"},
      // A composition that Unicode excludes.
      {"\u0958", "\u0915\u093C", "\u0915\u093C", "\u0915\u093C", "\u0915\u093C"},
      // Marks that came after Unicode 9 stay where they are, and hold others where they are.
      {"a\u0C3C\u0334", "a\u0C3C\u0334", "a\u0C3C\u0334", "a\u0C3C\u0334", "a\u0C3C\u0334"},
      {"a\u0307\u1DF9\u0323\u0301", "\u0227\u1DF9\u0323\u0301", "a\u0307\u1DF9\u0323\u0301",
       "\u0227\u1DF9\u0323\u0301", "a\u0307\u1DF9\u0323\u0301"},
      // So do what Unicode 12 and 13 made compatible or composed.
      {"\u32FF", "\u32FF", "\u32FF", "\u32FF", "\u32FF"},
      {"\U00011935\U00011930", "\U00011935\U00011930", "\U00011935\U00011930",
       "\U00011935\U00011930", "\U00011935\U00011930"},
      {std::string("\0e\u0301\0", 5), std::string("\0\u00E9\0", 4), std::string("\0e\u0301\0", 5),
       std::string("\0\u00E9\0", 4), std::string("\0e\u0301\0", 5)}};
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(normalized({{"type", "NFC"}}, row.text) == row.nfc);
    CHECK(normalized({{"type", "NFD"}}, row.text) == row.nfd);
    CHECK(normalized({{"type", "NFKC"}}, row.text) == row.nfkc);
    CHECK(normalized({{"type", "NFKD"}}, row.text) == row.nfkd);
  }
}

TEST_CASE("Lowercase looks at characters, not at words") {
  CHECK(normalized({{"type", "Lowercase"}}, "ÀΣ\u0130Xß") == "àσi\u0307xß");
}

TEST_CASE("Prepend leaves an empty text empty; Replace takes strings and patterns") {
  const json prepend = {{"type", "Prepend"}, {"prepend", "_"}};
  CHECK(normalized(prepend, "a") == "_a");
  CHECK(normalized(prepend, "").empty());
  const json dots = {{"type", "Replace"}, {"pattern", {{"String", "."}}}, {"content", "--"}};
  CHECK(normalized(dots, "a.b..") == "a--b----");
  const json spaces = {{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}};
  CHECK(normalized(spaces, "a \n\u00A0b") == "a b");
  const json both = {{"type", "Sequence"}, {"normalizers", {prepend, dots}}};
  CHECK(normalized(both, ".") == "_--");
  CHECK(normalized(nullptr, "A") == "A");
}

}  // namespace
}  // namespace kvbench
