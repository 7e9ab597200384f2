// tokenizer.model: ids and texts that the SentencePiece package for Python gave.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"
#include "tests/unit/text/small_tokenizers.hpp"
#include "text/tokenizer.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::contains;
using test::error_text;
using test::load_small;
using test::load_with_config;
using Ids = std::vector<std::int32_t>;

const json& expected(const std::string& name) {
  static const json document = read_json_file(test::small_tokenizers_dir() / "sentencepiece.json");
  return document[name];
}

TEST_CASE("a tokenizer.model gives SentencePiece's ids and texts, streamed or not") {
  for (const std::string name : {"extra_spaces", "byte_fallback"}) {
    CAPTURE(name);
    const auto tokenizer = load_small("sentencepiece_" + name);
    for (const json& row : expected(name)["encode"]) {
      CAPTURE(row[0]);
      CHECK(tokenizer->encode(row[0].get<std::string>()) == row[1].get<Ids>());
    }
    for (const json& row : expected(name)["decode"]) {
      CAPTURE(row[0]);
      const auto ids = row[0].get<Ids>();
      CHECK(tokenizer->decode(ids) == row[1].get<std::string>());
      StreamDecoder stream(*tokenizer);
      std::string streamed;
      for (const std::int32_t id : ids) streamed += stream.push(id);
      CHECK(streamed + stream.finish() == row[1].get<std::string>());
    }
  }
}

// Long texts are cut before the library sees them, short ones are not.
TEST_CASE("a long text has the ids of its words") {
  const auto tokenizer = load_small("sentencepiece_byte_fallback");
  const auto without_prefix = load_small("sentencepiece_extra_spaces");
  for (const auto* subject : {&tokenizer, &without_prefix}) {
    Ids parts;
    std::string text;
    for (int i = 0; i < 1500; ++i) {
      const std::string word = std::vector<std::string>{"Emma", "was", "é7", "the", "x,"}[i % 5];
      text += (i == 0 ? "" : " ") + word;
      const Ids ids = (*subject)->encode(word);
      parts.insert(parts.end(), ids.begin(), ids.end());
    }
    CHECK((*subject)->encode(text) == parts);
  }
}

TEST_CASE("remove_extra_whitespaces is read from the model") {
  const auto removing = load_small("sentencepiece_extra_spaces");
  CHECK(removing->encode("a  b") == removing->encode("a b"));
  const auto keeping = load_small("sentencepiece_byte_fallback");
  CHECK(keeping->encode("a  b") != keeping->encode("a b"));
}

TEST_CASE("control pieces in a text are text unless they are parsed") {
  const auto tokenizer = load_small("sentencepiece_byte_fallback");
  CHECK(tokenizer->encode("</s>", {.specials = SpecialTokens::parse}) == Ids{2});
  CHECK(tokenizer->encode("</s>").size() > 1);
  CHECK(tokenizer->is_special(2));
  CHECK(tokenizer->eos_ids() == Ids{2});
  CHECK(tokenizer->decode(Ids{1, tokenizer->id_of("▁the").value(), 2}, true) == "the");
}

TEST_CASE("BOS of a tokenizer.model: Llama's habit, or what the configuration says") {
  const std::string name = "sentencepiece_byte_fallback";
  const auto silent = load_small(name);
  CHECK(silent->bos_id() == 1);
  REQUIRE(silent->warnings().size() == 1);
  CHECK(contains(silent->warnings()[0], "add_bos_token is not stated"));
  CHECK_FALSE(load_with_config(name, R"({"add_bos_token":false})")->bos_id());
  const auto said = load_with_config(name, R"({"add_bos_token":true,"bos_token":"</s>"})");
  CHECK(said->bos_id() == 2);
  CHECK(said->warnings().empty());
}

TEST_CASE("tokens that tokenizer_config.json adds beyond the model") {
  const auto tokenizer = load_with_config(
      "sentencepiece_byte_fallback",
      R"({"add_bos_token":true,"added_tokens_decoder":{"600":{"content":"<pad>","special":true},
          "1":{"content":"<s>","special":true}}})");
  CHECK(tokenizer->vocab_size() == 601);
  CHECK(tokenizer->encode("<pad>", {.specials = SpecialTokens::parse}) == Ids{600});
  CHECK(tokenizer->decode(Ids{600}) == "<pad>");
  CHECK(tokenizer->decode(Ids{600}, true).empty());
}

TEST_CASE("a broken tokenizer.model is an error that names it") {
  const auto good = test::small_tokenizers_dir() / "sentencepiece_byte_fallback/tokenizer.model";
  for (const std::uintmax_t size : {0, 5, 3000}) {
    const test::TempDir directory;
    std::filesystem::copy(good, directory.path());
    std::filesystem::resize_file(directory.path() / "tokenizer.model", size);
    CHECK(contains(error_text<DataError>([&] { Tokenizer::load(directory.path()); }),
                   "tokenizer.model: SentencePiece: "));
  }
}

}  // namespace
}  // namespace kvbench
