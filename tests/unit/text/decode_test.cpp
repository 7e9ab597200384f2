// Decoding: whole and broken characters, one id at a time or all at once.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/text/small_tokenizers.hpp"
#include "text/text_stream.hpp"
#include "text/tokenizer.hpp"

namespace kvbench {
namespace {

using test::load_changed;
using test::load_small;
using Ids = std::vector<std::int32_t>;

const std::string kBad = "\uFFFD";

// Ids of the byte tokens of the llama2_like tokenizers.
Ids byte_ids(const std::vector<int>& bytes) {
  Ids ids;
  for (const int byte : bytes) ids.push_back(3 + byte);
  return ids;
}

std::vector<std::string> pushes(StreamDecoder& stream, const Ids& ids) {
  std::vector<std::string> texts;
  for (const std::int32_t id : ids) texts.push_back(stream.push(id));
  return texts;
}

TEST_CASE("byte fallback: a whole character, a cut one, a bad byte in the run") {
  const auto tokenizer = load_small("llama2_like_always");
  CHECK(tokenizer->decode(byte_ids({0xF0, 0x9F, 0x99, 0x82})) == "🙂");
  CHECK(tokenizer->decode(byte_ids({0xF0, 0x9F, 0x99})) == kBad + kBad + kBad);
  // One bad byte spoils the run up to the next token that is no byte.
  CHECK(tokenizer->decode(byte_ids({0xC3, 0xA9, 0xFF})) == kBad + kBad + kBad);
  Ids ids = byte_ids({0xC3, 0xA9});
  ids.push_back(293);
  CHECK(tokenizer->decode(ids) == "éb");
}

TEST_CASE("streaming byte fallback: nothing until the character is whole") {
  const auto tokenizer = load_small("llama2_like_always");
  StreamDecoder stream(*tokenizer);
  const Ids smile = byte_ids({0xF0, 0x9F, 0x99, 0x82});
  CHECK(pushes(stream, smile) == std::vector<std::string>{"", "", "", "🙂"});
  CHECK(stream.finish().empty());
  CHECK(pushes(stream, byte_ids({0xF0, 0x9F})) == std::vector<std::string>{"", ""});
  CHECK(stream.push(293) == kBad + kBad + "b");
  CHECK(stream.push(smile[0]).empty());
  CHECK(stream.finish() == kBad);
  CHECK(stream.push(293) == "b");
  // What has been shown stays; the rest of the run is bad.
  CHECK(pushes(stream, byte_ids({0xC3, 0xA9, 0xFF, 0xC3})) ==
        std::vector<std::string>{"", "é", kBad, kBad});
}

TEST_CASE("byte level: bytes are kept whatever the cut") {
  const auto tokenizer = load_small("llama3_like");
  const std::string family = "👨‍👩‍👧‍👦";
  const Ids ids = tokenizer->encode(family);
  CHECK(ids == Ids{260, 396, 397, 394, 99});
  CHECK(tokenizer->decode(ids) == family);
  CHECK(tokenizer->decode(Ids{260, 396}) == "👨‍" + kBad);
  std::string bytes;
  for (const std::int32_t id : ids) bytes += tokenizer->token_bytes(id);
  CHECK(bytes == family);
  StreamDecoder stream(*tokenizer);
  std::string streamed;
  for (const std::int32_t id : ids) {
    streamed += stream.push(id);
    CHECK(streamed.find(kBad) == std::string::npos);
    CHECK(family.starts_with(streamed));
  }
  CHECK(streamed + stream.finish() == family);
}

TEST_CASE("the space that encoding put in front is taken off, once, at the start only") {
  const auto tokenizer = load_small("llama2_like_always");
  CHECK(tokenizer->decode(Ids{333, 361}) == "a b");
  CHECK(tokenizer->decode(Ids{318, 333}) == " a");
  CHECK(tokenizer->decode(Ids{1, 333}) == "<s> a");
  CHECK(tokenizer->decode(Ids{1, 333}, /*skip_special=*/true) == "a");
  CHECK(tokenizer->token_bytes(361) == " b");
  StreamDecoder stream(*tokenizer, /*skip_special=*/true);
  CHECK(pushes(stream, Ids{1, 333, 2, 361}) == std::vector<std::string>{"", "a", "", " b"});
}

TEST_CASE("without a decoder, pieces stand with spaces between") {
  const auto tokenizer =
      load_changed("llama2_like_always", [](auto& document) { document["decoder"] = nullptr; });
  CHECK(tokenizer->decode(Ids{333, 361}) == "▁a ▁b");
}

TEST_CASE("bad bytes: one mark for each part, for each byte, or for the whole run") {
  const std::string bytes =
      "\xF0\x9F\x99"
      "a\xC3\xA9\xFF";
  struct Row {
    BadBytes rule;
    std::string text;
  };
  const std::vector<Row> rows = {{BadBytes::each_part, kBad + "aé" + kBad},
                                 {BadBytes::each_byte, kBad + kBad + kBad + "aé" + kBad},
                                 {BadBytes::whole_run, [] {
                                    std::string seven;
                                    for (int i = 0; i < 7; ++i) seven += kBad;
                                    return seven;
                                  }()}};
  for (const Row& row : rows) {
    // The same however the bytes are cut into tokens.
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      ByteJoiner joiner(row.rule, /*live=*/false);
      std::string text;
      joiner.add_bytes(bytes.substr(0, cut), text);
      joiner.add_bytes(bytes.substr(cut), text);
      joiner.end_run(text);
      CHECK(text == row.text);
    }
  }
}

}  // namespace
}  // namespace kvbench
