// tekken.json: ids and texts that mistral-common gave, and files that must be refused.
#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"
#include "tests/unit/text/small_tokenizers.hpp"
#include "text/base64.hpp"
#include "text/tokenizer.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::contains;
using test::error_text;
using test::load_small;
using test::load_with_config;
using Ids = std::vector<std::int32_t>;

const json& expected() {
  static const json document = read_json_file(test::small_tokenizers_dir() / "tekken.json");
  return document;
}

template <class Change>
std::unique_ptr<Tokenizer> load_tekken_changed(Change&& change) {
  json document = read_json_file(test::small_tokenizers_dir() / "tekken_like/tekken.json");
  change(document);
  const test::TempDir directory;
  directory.write("tekken.json", document.dump());
  return Tokenizer::load(directory.path());
}

TEST_CASE("tekken.json gives the reference's ids") {
  const auto tokenizer = load_small("tekken_like");
  CHECK(tokenizer->vocab_size() == expected()["n_ids"]);
  for (const json& row : expected()["encode"]) {
    CAPTURE(row[0]);
    const auto text = row[0].get<std::string>();
    CHECK(tokenizer->encode(text) == row[1].get<Ids>());
    CHECK(tokenizer->decode(row[1].get<Ids>()) == text);
  }
  CHECK(expected()["encode"].size() > 100);
}

TEST_CASE("tekken.json gives the reference's texts, streamed or not") {
  const auto tokenizer = load_small("tekken_like");
  for (const json& row : expected()["decode"]) {
    const auto ids = row[0].get<Ids>();
    CAPTURE(row[0]);
    for (const bool skip : {false, true}) {
      const auto text = row[skip ? 2 : 1].get<std::string>();
      CHECK(tokenizer->decode(ids, skip) == text);
      StreamDecoder stream(*tokenizer, skip);
      std::string streamed;
      for (const std::int32_t id : ids) streamed += stream.push(id);
      CHECK(streamed + stream.finish() == text);
    }
  }
}

TEST_CASE("tekken.json: BOS, EOS, pieces, bytes, special tokens in a text") {
  const auto tokenizer = load_small("tekken_like");
  CHECK(tokenizer->bos_id() == expected()["bos"]);
  CHECK(tokenizer->eos_ids() == Ids{expected()["eos"].get<std::int32_t>()});
  CHECK(tokenizer->encode("the", {.add_bos = true}).front() == 1);
  CHECK(tokenizer->piece(3) == "[INST]");
  CHECK(tokenizer->piece(29) == "<SPECIAL_29>");
  CHECK(tokenizer->token_bytes(30) == std::string(1, '\0'));
  CHECK(tokenizer->token_bytes(255 + 30) == "\xFF");
  for (std::int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    REQUIRE(tokenizer->id_of(tokenizer->piece(id)) == id);
    REQUIRE(tokenizer->is_special(id) == (id < 30));
  }
  CHECK(tokenizer->encode("[INST]", {.specials = SpecialTokens::parse}) == Ids{3});
  CHECK(tokenizer->encode("[INST]").size() > 1);
  CHECK(contains(tokenizer->description(), "tekken.json v3"));
  CHECK_THROWS_AS(tokenizer->piece(tokenizer->vocab_size()), DataError);
}

TEST_CASE("tekken.json: what tokenizer_config.json says about BOS comes first") {
  CHECK_FALSE(load_with_config("tekken_like", R"({"add_bos_token":false})")->bos_id());
  CHECK(load_with_config("tekken_like", R"({"bos_token":"<unk>"})")->bos_id() == 0);
  CHECK(load_with_config("tekken_like", R"({"eos_token":"[INST]"})")->eos_ids() == Ids{3});
  CHECK(contains(
      error_text<DataError>([] { load_with_config("tekken_like", R"({"bos_token":"<bos>"})"); }),
      "key bos_token: \"<bos>\" is not in"));
}

TEST_CASE("tekken.json: the other two files come first") {
  const test::TempDir directory;
  const auto root = test::small_tokenizers_dir();
  std::filesystem::copy(root / "tekken_like/tekken.json", directory.path());
  CHECK(contains(Tokenizer::load(directory.path())->description(), "tekken.json"));
  std::filesystem::copy(root / "sentencepiece_byte_fallback/tokenizer.model", directory.path());
  CHECK(contains(Tokenizer::load(directory.path())->description(), "tokenizer.model"));
  std::filesystem::copy(root / "llama3_like/tokenizer.json", directory.path());
  CHECK(contains(Tokenizer::load(directory.path())->description(), "tokenizer.json"));
  const test::TempDir empty;
  CHECK(contains(error_text<DataError>([&] { Tokenizer::load(empty.path()); }),
                 "found none of tokenizer.json, tokenizer.model, tekken.json"));
}

// Newer files name their special tokens themselves; the ids of all others follow from their count.
TEST_CASE("tekken.json: special tokens of the file's own") {
  const auto tokenizer = load_tekken_changed([](json& d) {
    d["config"]["version"] = "v13";
    d["config"]["default_num_special_tokens"] = 4;
    d["config"]["default_vocab_size"] = 384;
    d["special_tokens"] = {{{"rank", 0}, {"token_str", "<s>"}, {"is_control", true}},
                           {{"rank", 1}, {"token_str", "<think>"}, {"is_control", false}}};
  });
  CHECK(tokenizer->piece(1) == "<think>");
  CHECK(tokenizer->piece(3) == "<SPECIAL_3>");
  CHECK(tokenizer->bos_id() == 0);
  CHECK(tokenizer->eos_ids().empty());
  const auto original = load_small("tekken_like");
  Ids ids = original->encode("The quick brown fox");
  for (std::int32_t& id : ids) id -= 26;
  CHECK(tokenizer->encode("The quick brown fox") == ids);
}

struct Refusal {
  std::function<void(json&)> change;
  std::string message;  // part of it
};

void check_refusals(const std::vector<Refusal>& rows) {
  for (const Refusal& row : rows) {
    CAPTURE(row.message);
    const std::string error = error_text<DataError>([&] { load_tekken_changed(row.change); });
    CHECK(contains(error, "tekken.json: key "));
    CHECK(contains(error, row.message));
    CHECK_FALSE(contains(error, "\n"));
  }
}

TEST_CASE("a tekken.json with a bad configuration is refused by key") {
  check_refusals({
      {[](json& d) { d.erase("config"); }, "key config: missing"},
      {[](json& d) { d["config"].erase("pattern"); }, "key config.pattern: missing"},
      {[](json& d) { d["config"]["pattern"] = "("; }, "key config.pattern: pattern"},
      {[](json& d) { d["config"]["version"] = "v99"; },
       "key config.version: \"v99\" is not supported; known: v1, v2, v3"},
      {[](json& d) { d["config"]["default_vocab_size"] = 1000; },
       "key vocab: has 400 tokens, but config.default_vocab_size asks for 970"},
      {[](json& d) { d["config"]["default_vocab_size"] = 100; }, "leave no room"},
      {[](json& d) { d["config"]["default_num_special_tokens"] = "30"; },
       "key config.default_num_special_tokens"},
      {[](json& d) { d["config"]["default_num_special_tokens"] = 10; },
       "is 10, but there are 20 special tokens"},
      {[](json& d) { d["config"]["version"] = "v11"; }, "key special_tokens: missing"},
  });
}

TEST_CASE("a tekken.json with bad tokens is refused by key and place") {
  const auto special = [](int rank, const char* name) {
    return json{{"rank", rank}, {"token_str", name}, {"is_control", true}};
  };
  check_refusals({
      {[](json& d) { d["vocab"] = json::object(); }, "key vocab: expected an array, found object"},
      {[](json& d) { d["vocab"][300] = 7; }, "key vocab[300]"},
      {[](json& d) { d["vocab"][300]["rank"] = 5; },
       "key vocab[300]: key rank: is 5, expected 300"},
      {[](json& d) { d["vocab"][300]["token_bytes"] = "a"; },
       "key vocab[300]: key token_bytes: expected base64"},
      {[](json& d) { d["vocab"][300]["token_bytes"] = ""; }, "at least one byte"},
      {[](json& d) { d["vocab"][65]["token_bytes"] = "Qg=="; }, "is not the byte 0x41"},
      {[](json& d) { d["vocab"][300]["token_bytes"] = d["vocab"][299]["token_bytes"]; },
       "key vocab: token 300 repeats token 299"},
      {[&](json& d) { d["special_tokens"] = {special(1, "<s>")}; },
       "key special_tokens[0]: key rank: is 1, expected 0"},
      {[&](json& d) {
         d["special_tokens"] = {special(0, "<s>"), special(1, "<s>")};
       },
       "key special_tokens: \"<s>\" is there twice"},
      {[&](json& d) { d["special_tokens"] = {special(0, "<SPECIAL_7>")}; },
       "\"<SPECIAL_7>\" is there twice"},
  });
}

TEST_CASE("a pattern of tekken.json that leaves text out is an error, not a loss") {
  const auto tokenizer = load_tekken_changed([](json& d) { d["config"]["pattern"] = "[a-z ]+"; });
  CHECK(tokenizer->decode(tokenizer->encode("quick fox")) == "quick fox");
  CHECK(contains(error_text<DataError>([&] { tokenizer->encode("fox 7"); }),
                 "key config.pattern: matches nothing at byte 4"));
}

TEST_CASE("base64: padded, without white space, in one spelling") {
  CHECK(decode_base64("") == "");
  CHECK(decode_base64("Zg==") == "f");
  CHECK(decode_base64("Zm8=") == "fo");
  CHECK(decode_base64("Zm9vYmFy") == "foobar");
  CHECK(decode_base64("/+8=") == "\xFF\xEF");
  for (const char* bad :
       {"Zg", "Zg=", "Z===", "====", "Zh==", "Zm9=", "Zg==Zg==", "Zm 8", "Zm-8"}) {
    CAPTURE(bad);
    CHECK_FALSE(decode_base64(bad));
  }
}

}  // namespace
}  // namespace kvbench
