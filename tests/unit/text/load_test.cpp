// tokenizer.json files that must be refused, with a message that names the place.
#include <doctest/doctest.h>

#include <functional>
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
using test::load_changed;
using Ids = std::vector<std::int32_t>;

struct Refusal {
  std::function<void(json&)> change;
  std::string message;  // part of it
};

void check_refusals(const std::vector<Refusal>& rows) {
  for (const Refusal& row : rows) {
    CAPTURE(row.message);
    const std::string error =
        error_text<DataError>([&] { load_changed("qwen2_like", row.change); });
    CHECK(contains(error, "tokenizer.json: "));
    CHECK(contains(error, row.message));
    CHECK_FALSE(contains(error, "\n"));
  }
}

TEST_CASE("an unsupported component is named with its place and type") {
  check_refusals({
      {[](json& d) { d["model"]["type"] = "Unigram"; }, "key model.type: \"Unigram\""},
      {[](json& d) {
         d["normalizer"] = {{"type", "BertNormalizer"}};
       },
       "key normalizer: type \"BertNormalizer\" is not supported"},
      {[](json& d) {
         d["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Precompiled"}}}}};
       },
       "key normalizer.normalizers[0]: type \"Precompiled\""},
      {[](json& d) { d["pre_tokenizer"]["pretokenizers"][1]["type"] = "UnicodeScripts"; },
       "key pre_tokenizer.pretokenizers[1]: type \"UnicodeScripts\""},
      {[](json& d) { d["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Merged"; },
       "behavior \"Merged\""},
      {[](json& d) {
         d["decoder"] = {{"type", "WordPiece"}};
       },
       "key decoder: type \"WordPiece\""},
      {[](json& d) {
         d["post_processor"] = {{"type", "BertProcessing"}};
       },
       "key post_processor: type \"BertProcessing\""},
      {[](json& d) { d["model"]["dropout"] = 0.1; }, "dropout"},
      {[](json& d) { d["model"]["end_of_word_suffix"] = "</w>"; }, "end_of_word_suffix"},
      {[](json& d) { d["model"]["continuing_subword_prefix"] = "##"; },
       "continuing_subword_prefix"},
  });
}

TEST_CASE("a malformed model is refused") {
  check_refusals({
      {[](json& d) { d.erase("model"); }, "key model: expected an object, found null"},
      {[](json& d) { d["model"]["vocab"] = json::array(); }, "key model.vocab"},
      {[](json& d) { d["model"]["vocab"]["!"] = -1; }, "token \"!\""},
      {[](json& d) { d["model"]["vocab"]["!"] = 1.5; }, "token \"!\""},
      {[](json& d) { d["model"]["vocab"]["!"] = 2000000000; }, "found 2000000000"},
      {[](json& d) { d["model"]["vocab"]["!"] = 1; }, "both have id 1"},
      {[](json& d) { d["model"].erase("merges"); }, "key model.merges: missing"},
      {[](json& d) { d["model"]["merges"] = json::array(); }, "empty, but the vocabulary has 420"},
      {[](json& d) { d["model"]["merges"][3] = "a b c"; }, "entry 3: expected two parts"},
      {[](json& d) { d["model"]["merges"][3] = json::array({"a"}); }, "entry 3"},
      {[](json& d) {
         d["model"]["merges"][3] = json::array({"zz", "a"});
       },
       "entry 3: token \"zz\" is not in the vocabulary"},
      {[](json& d) { d["added_tokens"][0]["content"] = ""; }, "content is empty"},
      {[](json& d) { d["added_tokens"][0].erase("id"); }, "id"},
      {[](json& d) { d["added_tokens"][0]["lstrip"] = "yes"; }, "lstrip"},
      {[](json& d) { d["added_tokens"].push_back(d["added_tokens"][0]); }, "is there twice"},
  });
}

TEST_CASE("a decoder whose order of steps has no equal for streams is refused") {
  const auto sequence = [](const json& steps) {
    return [steps](json& d) { d["decoder"] = {{"type", "Sequence"}, {"decoders", steps}}; };
  };
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", "x"}}}, {"content", "y"}};
  const json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  json strip_end = strip;
  strip_end["stop"] = 1;
  check_refusals({
      {sequence({{{"type", "Fuse"}}, replace}), "Replace or Metaspace after ByteFallback or Fuse"},
      {sequence(json::array({strip})), "Strip is supported only after Fuse"},
      {sequence({{{"type", "Fuse"}}, strip_end}), "stop > 0"},
      {sequence({{{"type", "ByteLevel"}}, replace}), "key decoder.decoders[1]"},
  });
}

TEST_CASE("a file of an early version, without model.type, is read") {
  const auto tokenizer = load_changed("gpt2_neox_like", [](json& d) { d["model"].erase("type"); });
  CHECK(tokenizer->encode("Hi") == test::load_small("gpt2_neox_like")->encode("Hi"));
}

TEST_CASE("merges may begin with a version line") {
  const auto tokenizer = load_changed("qwen2_like_old_merges", [](json& d) {
    d["model"]["merges"].insert(d["model"]["merges"].begin(), "#version: 0.2");
  });
  const std::string text = "The quick brown fox";
  CHECK(tokenizer->encode(text) == test::load_small("qwen2_like_old_merges")->encode(text));
}

// The reference numbers added tokens itself; a file that says otherwise is reported.
TEST_CASE("an added token whose id is not the vocabulary's is warned about") {
  const auto tokenizer =
      load_changed("qwen2_like", [](json& d) { d["added_tokens"][2]["id"] = 500; });
  CHECK(tokenizer->id_of("<|im_end|>") == 422);
  REQUIRE(tokenizer->warnings().size() == 1);
  CHECK(contains(tokenizer->warnings()[0], "has id 500"));
}

TEST_CASE("bytes without a token become unk, fused or not, or nothing; loading warns") {
  const auto without_z = [](const json& unk, bool fuse) {
    return load_changed("qwen2_like", [&](json& d) {
      d["model"]["vocab"].erase("Ā");  // byte 0
      d["model"]["unk_token"] = unk;
      d["model"]["fuse_unk"] = fuse;
      d["added_tokens"] = json::array();
    });
  };
  const std::string text("a\0\0b", 4);
  CHECK(without_z("!", true)->encode(text) == Ids{64, 0, 65});
  CHECK(without_z("!", false)->encode(text) == Ids{64, 0, 0, 65});
  CHECK(without_z(nullptr, false)->encode(text) == Ids{64, 65});
  CHECK(contains(without_z("!", true)->warnings().at(0), "1 of 256 bytes have no token"));
  const auto lost = without_z("<unk>", true);
  CHECK(lost->encode("ab") == Ids{64, 65});
  CHECK(contains(error_text<DataError>([&] { lost->encode(text); }), "\"<unk>\" is needed"));
}

}  // namespace
}  // namespace kvbench
