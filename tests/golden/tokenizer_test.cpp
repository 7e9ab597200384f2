// SmolLM2's tokenizer against ids and texts that Hugging Face `tokenizers` gave. The model
// directory is made by datasets/; without it the tests are skipped.
#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/json_file.hpp"
#include "tests/golden/smollm2.hpp"
#include "text/tokenizer.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

const Tokenizer& smollm2() {
  static const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(test::smollm2_directory());
  return *tokenizer;
}

const json& reference() {
  static const json document =
      read_json_file(std::filesystem::path(KVBENCH_SOURCE_DIR) / "tests/golden/tokens.json");
  return document;
}

TEST_CASE("SmolLM2: ids of the reference strings, bytes without a token included") {
  for (const json& test : reference()["tests"]) {
    const auto text = test["text"].get<std::string>();
    CAPTURE(text);
    CHECK(smollm2().encode(text, {.specials = SpecialTokens::parse}) == test["ids"].get<Ids>());
  }
  CHECK(reference()["tests"].size() == 223);
}

TEST_CASE("SmolLM2: text of the reference ids, at once and streamed") {
  for (const json& test : reference()["tests"]) {
    const auto ids = test["ids"].get<Ids>();
    const auto text = test.value("decoded", test["text"].get<std::string>());
    CAPTURE(text);
    CHECK(smollm2().decode(ids) == text);
    StreamDecoder stream(smollm2());
    std::string streamed;
    for (const std::int32_t id : ids) streamed += stream.push(id);
    streamed += stream.finish();
    CHECK(streamed == text);
  }
}

TEST_CASE("SmolLM2: spelled-out special tokens are plain text unless they are parsed") {
  const auto parsed = smollm2().encode("a<|im_end|>b", {.specials = SpecialTokens::parse});
  const auto plain = smollm2().encode("a<|im_end|>b");
  CHECK(parsed.size() == 3);
  CHECK(parsed[1] == 2);
  CHECK(plain.size() > 3);
  CHECK(smollm2().decode(plain) == "a<|im_end|>b");
  CHECK(smollm2().decode(parsed, /*skip_special=*/true) == "ab");
}

}  // namespace
}  // namespace kvbench
