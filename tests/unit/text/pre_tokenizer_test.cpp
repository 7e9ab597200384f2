// Pre-tokenizers, one type at a time; words are those of the reference library.
#include "text/pre_tokenizer.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvbench {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

Words words_of(const json& spec, const std::string& text, bool at_text_start = true) {
  RegexScratch scratch;
  const PieceList list = PreTokenizer(spec, "test").apply(text, at_text_start, scratch);
  Words words;
  for (const Piece& piece : list.pieces) words.emplace_back(list.view(piece));
  return words;
}

json split(const std::string& behavior, bool invert = false) {
  return {{"type", "Split"},
          {"pattern", {{"String", "-"}}},
          {"behavior", behavior},
          {"invert", invert}};
}

TEST_CASE("Split: what becomes of the delimiters") {
  const std::string text = "-the--final-";
  CHECK(words_of(split("Removed"), text) == Words{"the", "final"});
  CHECK(words_of(split("Isolated"), text) == Words{"-", "the", "-", "-", "final", "-"});
  CHECK(words_of(split("MergedWithPrevious"), text) == Words{"-", "the-", "-", "final-"});
  CHECK(words_of(split("MergedWithNext"), text) == Words{"-the", "-", "-final", "-"});
  CHECK(words_of(split("Contiguous"), text) == Words{"-", "the", "--", "final", "-"});
  CHECK(words_of(split("Removed", true), text) == Words{"-", "-", "-", "-"});
}

TEST_CASE("Digits: one by one, or in runs; all Unicode numbers count") {
  json digits = {{"type", "Digits"}, {"individual_digits", true}};
  CHECK(words_of(digits, "a12²x٣") == Words{"a", "1", "2", "²", "x", "٣"});
  digits["individual_digits"] = false;
  CHECK(words_of(digits, "a12²x٣") == Words{"a", "12²", "x", "٣"});
}

TEST_CASE("Punctuation: Unicode punctuation and ASCII symbols") {
  CHECK(words_of({{"type", "Punctuation"}}, "a$b—c€!?") ==
        Words{"a", "$", "b", "—", "c€", "!", "?"});
  CHECK(words_of({{"type", "Punctuation"}, {"behavior", "Contiguous"}}, "a!?") == Words{"a", "!?"});
}

TEST_CASE("Metaspace: in front always, at the start of the text only, or never") {
  json spec = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}};
  CHECK(words_of(spec, "a  b") == Words{"▁a", "▁", "▁b"});
  CHECK(words_of(spec, " a") == Words{"▁a"});
  CHECK(words_of(spec, "▁a") == Words{"▁a"});
  spec["prepend_scheme"] = "first";
  CHECK(words_of(spec, "a b") == Words{"▁a", "▁b"});
  CHECK(words_of(spec, "a b", /*at_text_start=*/false) == Words{"a", "▁b"});
  spec["prepend_scheme"] = "never";
  spec["split"] = false;
  CHECK(words_of(spec, "a b") == Words{"a▁b"});
  // Of older files.
  CHECK(words_of({{"type", "Metaspace"}, {"replacement", "▁"}, {"add_prefix_space", false}},
                 "a b") == Words{"a", "▁b"});
}

TEST_CASE("only the first word of a text that is split first is at its start") {
  const json spec = {
      {"type", "Sequence"},
      {"pretokenizers",
       {split("Isolated"),
        {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}}}}};
  CHECK(words_of(spec, "a-b") == Words{"▁a", "-", "b"});
}

TEST_CASE("ByteLevel: alphabet, pattern and prefix space") {
  json spec = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  CHECK(words_of(spec, "I'll é  x\n") == Words{"I", "'ll", "ĠÃ©", "Ġ", "Ġx", "Ċ"});
  spec["use_regex"] = false;
  CHECK(words_of(spec, "a b") == Words{"aĠb"});
  CHECK(words_of({{"type", "ByteLevel"}}, "a b") == Words{"Ġa", "Ġb"});
  CHECK(words_of({{"type", "ByteLevel"}}, " a") == Words{"Ġa"});
}

TEST_CASE("an empty text has no words, and without a pre-tokenizer a text is one word") {
  CHECK(words_of({{"type", "ByteLevel"}}, "").empty());
  CHECK(words_of(nullptr, "a b") == Words{"a b"});
}

}  // namespace
}  // namespace kvbench
