// Small tokenizers of each kind against ids that Hugging Face `tokenizers` gave.
#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/json_file.hpp"
#include "tests/unit/text/small_tokenizers.hpp"
#include "text/tokenizer.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::load_small;
using test::small_tokenizers_dir;
using Ids = std::vector<std::int32_t>;

// The reference parses special tokens unless told otherwise.
const EncodeOptions kParse = {.specials = SpecialTokens::parse};

const json& expected() {
  static const json document = read_json_file(small_tokenizers_dir() / "expected.json");
  return document;
}

std::vector<std::string> pieces_of(const Tokenizer& tokenizer, const Ids& ids) {
  std::vector<std::string> pieces;
  for (const std::int32_t id : ids) pieces.push_back(tokenizer.piece(id));
  return pieces;
}

TEST_CASE("every small tokenizer gives the reference's ids for every string") {
  int compared = 0;
  for (const auto& [name, cases] : expected()["ids"].items()) {
    const auto tokenizer = load_small(name);
    for (const auto& [label, ids] : cases.items()) {
      CAPTURE(name);
      CAPTURE(label);
      const auto text = expected()["strings"][label].get<std::string>();
      CHECK(tokenizer->encode(text, kParse) == ids.get<Ids>());
      ++compared;
    }
  }
  CHECK(compared >= 11 * 37);
}

// truncation_inside is qwen2_like with "truncation" to 8 ids and "padding" to 8.
TEST_CASE("truncation and padding in the file are not obeyed") {
  const auto tokenizer = load_small("truncation_inside");
  for (const auto& [label, ids] : expected()["ids"]["qwen2_like"].items()) {
    CAPTURE(label);
    const auto text = expected()["strings"][label].get<std::string>();
    CHECK(tokenizer->encode(text, kParse) == ids.get<Ids>());
  }
  CHECK(tokenizer->encode("The quick brown fox jumps over the lazy dog again").size() == 25);
  CHECK(tokenizer->encode("Hi").size() == 2);
}

TEST_CASE("BOS comes from the post-processor, and only where it has one") {
  for (const auto& [name, ids] : expected()["plain_with_bos"].items()) {
    CAPTURE(name);
    const auto tokenizer = load_small(name);
    const auto text = expected()["strings"]["plain"].get<std::string>();
    EncodeReport report;
    CHECK(tokenizer->encode(text, {.add_bos = true}, &report) == ids.get<Ids>());
    CHECK(report.bos_added == tokenizer->bos_id().has_value());
    CHECK(report.warnings.empty() == tokenizer->bos_id().has_value());
  }
}

TEST_CASE("streaming an encoded string gives the text of decoding it at once") {
  for (const auto& [name, cases] : expected()["ids"].items()) {
    const auto tokenizer = load_small(name);
    for (const auto& [label, expected_ids] : cases.items()) {
      CAPTURE(name);
      CAPTURE(label);
      const auto ids = expected_ids.get<Ids>();
      StreamDecoder stream(*tokenizer);
      std::string streamed;
      for (const std::int32_t id : ids) streamed += stream.push(id);
      streamed += stream.finish();
      CHECK(streamed == tokenizer->decode(ids));
    }
  }
}

TEST_CASE("flags of added tokens: normalized, lstrip, rstrip, single_word, longest first") {
  const auto tokenizer = load_small("added_tokens");
  for (const auto& [text, reference] : expected()["added_tokens_pieces"].items()) {
    CAPTURE(text);
    // The reference spells an added token as the text that it matched.
    std::vector<std::string> pieces;
    for (auto piece : reference.get<std::vector<std::string>>()) {
      if (piece == "<norm>") piece = "<Norm>";
      if (piece == " <L>") piece = "<L>";
      if (piece == "<R> ") piece = "<R>";
      pieces.push_back(piece);
    }
    CHECK(pieces_of(*tokenizer, tokenizer->encode(text, kParse)) == pieces);
  }
}

TEST_CASE("tokens that are added but not special are found in text mode, too") {
  const auto tokenizer = load_small("added_tokens");
  CHECK(tokenizer->encode("<A><B>") == tokenizer->encode("<A><B>", kParse));
}

}  // namespace
}  // namespace kvbench
