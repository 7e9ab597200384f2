// What the Tokenizer promises around the ids: BOS, EOS, special tokens, bytes that are not UTF-8.
#include "text/tokenizer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"
#include "tests/unit/text/small_tokenizers.hpp"

namespace kvbench {
namespace {

using std::string_literals::operator""s;
using test::contains;
using test::error_text;
using test::load_changed;
using test::load_small;
using test::load_with_config;
using Ids = std::vector<std::int32_t>;

TEST_CASE("a BOS that the text has already is not doubled") {
  const auto tokenizer = load_small("llama3_like");
  const EncodeOptions options = {.add_bos = true, .specials = SpecialTokens::parse};
  EncodeReport report;
  CHECK(tokenizer->encode("<|begin_of_text|>Hi", options, &report) == Ids{420, 39, 72});
  CHECK_FALSE(report.bos_added);
  REQUIRE(report.warnings.size() == 1);
  CHECK(contains(report.warnings[0], "already begins with the BOS token <|begin_of_text|>"));
  CHECK(tokenizer->encode("Hi", options, &report) == Ids{420, 39, 72});
  CHECK(report.bos_added);
  CHECK(report.warnings.empty());
  CHECK(tokenizer->encode("", options) == Ids{420});
}

TEST_CASE("a tokenizer without BOS adds none, and says so") {
  const auto tokenizer = load_small("qwen2_like");
  EncodeReport report;
  CHECK(tokenizer->encode("Hi", {.add_bos = true}, &report) == Ids{39, 72});
  REQUIRE(report.warnings.size() == 1);
  CHECK(contains(report.warnings[0], "no BOS"));
  CHECK(contains(tokenizer->description(), "no BOS"));
}

TEST_CASE("add_bos_token of tokenizer_config.json goes before the post-processor") {
  CHECK_FALSE(load_with_config("llama3_like", R"({"add_bos_token":false})")->bos_id());
  CHECK(load_with_config("llama3_like", R"({"bos_token":"<|eot_id|>"})")->bos_id() == 420);
  const auto tokenizer = load_with_config(
      "qwen2_like", R"({"add_bos_token":true,"bos_token":{"content":"<|im_start|>"}})");
  CHECK(tokenizer->bos_id() == 421);
  REQUIRE(tokenizer->warnings().size() == 1);
  CHECK(contains(tokenizer->warnings()[0], "the post-processor none"));
  CHECK(contains(error_text<DataError>([] {
                   load_with_config("qwen2_like", R"({"add_bos_token":true,"bos_token":null})");
                 }),
                 "there is no bos_token"));
  CHECK(contains(error_text<DataError>([] {
                   load_with_config("qwen2_like", R"({"add_bos_token":true,"bos_token":"<s>"})");
                 }),
                 "\"<s>\" is not in the vocabulary"));
}

TEST_CASE("EOS ids come from both configuration files") {
  const test::TempDir directory;
  std::filesystem::copy(test::small_tokenizers_dir() / "llama3_like", directory.path(),
                        std::filesystem::copy_options::recursive);
  directory.write("tokenizer_config.json", R"({"eos_token":{"content":"<|eot_id|>"}})");
  directory.write("generation_config.json", R"({"eos_token_id":[421,422]})");
  CHECK(Tokenizer::load(directory.path())->eos_ids() == Ids{421, 422});
  directory.write("generation_config.json", R"({"eos_token_id":421})");
  CHECK(Tokenizer::load(directory.path())->eos_ids() == Ids{421, 422});
  directory.write("generation_config.json", R"({"eos_token_id":null})");
  CHECK(Tokenizer::load(directory.path())->eos_ids() == Ids{422});
  directory.write("tokenizer_config.json", R"({"eos_token":"<eos>"})");
  CHECK(contains(error_text<DataError>([&] { Tokenizer::load(directory.path()); }), "eos_token"));
  CHECK(load_small("llama3_like")->eos_ids().empty());
}

TEST_CASE("spelled-out special tokens are text by default, ids when parsed") {
  const auto tokenizer = load_small("llama3_like");
  CHECK(tokenizer->encode("x<|eot_id|>y", {.specials = SpecialTokens::parse}) == Ids{87, 422, 88});
  const Ids ids = tokenizer->encode("x<|eot_id|>y");
  CHECK(std::none_of(ids.begin(), ids.end(), [](std::int32_t id) { return id >= 420; }));
  CHECK(tokenizer->decode(ids) == "x<|eot_id|>y");
  CHECK(tokenizer->is_special(422));
  CHECK_FALSE(tokenizer->is_special(87));
}

// ignore_merges takes a whole word that is in the vocabulary; a special token must not be one.
TEST_CASE("a special token that is in the vocabulary, too, is still text by default") {
  const auto tokenizer = load_changed(
      "llama2_like_never", [](auto& document) { document["model"]["ignore_merges"] = true; });
  CHECK(tokenizer->encode("</s>", {.specials = SpecialTokens::parse}) == Ids{2});
  const Ids ids = tokenizer->encode("</s>");
  CHECK(std::none_of(ids.begin(), ids.end(), [&](auto id) { return tokenizer->is_special(id); }));
  CHECK(tokenizer->decode(ids) == "</s>");
}

TEST_CASE("NUL is a byte like any other") {
  CHECK(load_small("llama3_like")->encode("a\0b"s) == Ids{64, 188, 65});
  CHECK(load_small("llama2_like_always")->encode("a\0b"s) == Ids{333, 3, 293});
}

TEST_CASE("bytes that are not UTF-8: an error with their offset, or one U+FFFD for each part") {
  struct Row {
    std::string bytes;
    std::size_t offset;
    std::string replaced;
    std::size_t parts;
  };
  const std::vector<Row> rows = {{"a\xFF"s + "b", 1, "a\uFFFD"s + "b", 1},
                                 {"caf\xE9", 3, "caf\uFFFD", 1},
                                 {"\xED\xA0\x80", 0, "\uFFFD\uFFFD\uFFFD", 3},
                                 {"\xC0\xAF", 0, "\uFFFD\uFFFD", 2},
                                 {"ok \xF0\x9F\x99", 3, "ok \uFFFD", 1},
                                 {"\xE2\x82\xE2\x82\xAC", 0, "\uFFFD\u20AC", 1},
                                 {"\xF4\x90\x80\x80", 0, "\uFFFD\uFFFD\uFFFD\uFFFD", 4}};
  const auto tokenizer = load_small("qwen2_like");
  for (const Row& row : rows) {
    CAPTURE(row.offset);
    const std::string error =
        error_text<DataError>([&] { tokenizer->encode(row.bytes, {.source = "book.txt"}); });
    CHECK(contains(error, "book.txt: invalid UTF-8 at byte " + std::to_string(row.offset) + " "));
    EncodeReport report;
    const Ids ids = tokenizer->encode(row.bytes, {.invalid_utf8 = InvalidUtf8::replace}, &report);
    CHECK(ids == tokenizer->encode(row.replaced));
    CHECK(report.invalid_parts == row.parts);
  }
}

TEST_CASE("a directory without a tokenizer is an error that names both files") {
  const test::TempDir directory;
  const std::string error = error_text<DataError>([&] { Tokenizer::load(directory.path()); });
  CHECK(contains(error, "tokenizer.json"));
  CHECK(contains(error, "tokenizer.model"));
}

TEST_CASE("ids and pieces map onto each other") {
  const auto tokenizer = load_small("llama3_like");
  CHECK(tokenizer->vocab_size() == 423);
  for (std::int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    CHECK(tokenizer->id_of(tokenizer->piece(id)) == id);
  }
  CHECK_FALSE(tokenizer->id_of("no such token"));
  for (const std::int32_t id : {-1, 423}) {
    CHECK(contains(error_text<DataError>([&] { tokenizer->piece(id); }), "423 ids"));
    CHECK(contains(error_text<DataError>([&] { tokenizer->decode(Ids{id}); }), "423 ids"));
  }
}

}  // namespace
}  // namespace kvbench
