// Text on its way in and out: tokenizing there and back, special tokens in books, bytes that are
// no UTF-8, names that are none either.
#include <doctest/doctest.h>

#include <fstream>

#include "tests/program/program.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/random_model.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::contains;
using test::fault_of;
using test::run_program;

std::string tokenizer(const std::string& name) {
  return (test::golden_directory() / "tokenizers" / name).string();
}

// A model whose vocabulary is that of the small llama3-like tokenizer, which lies beside it.
class TextModel {
 public:
  TextModel() {
    test::write_random_llama(directory_, {.vocab = 512}, 1);
    directory_.write(
        "tokenizer.json",
        test::read_text(std::filesystem::path(tokenizer("llama3_like")) / "tokenizer.json"));
  }
  test::ProgramResult ppl(const std::string& bytes, const std::vector<std::string>& more,
                          const std::string& name = "book.txt") const {
    const auto book = directory_.write(name, bytes);
    std::vector<std::string> arguments = {"ppl",
                                          "--model",
                                          directory_.path().string(),
                                          "--data",
                                          book.string(),
                                          "--policy",
                                          "full",
                                          "--quiet",
                                          "--json",
                                          "--threads",
                                          "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }

 private:
  test::TempDir directory_;
};

TEST_CASE("text to ids and back") {
  const std::string text = "The quick brown fox\nit’s 12345678 日本語 🙂";
  for (const char* name : {"llama3_like", "qwen2_like", "gpt2_neox_like"}) {
    const auto there =
        run_program({"tokenize", "--model", tokenizer(name), "--text", text, "--json"});
    REQUIRE(there.exit_code == 0);
    std::string ids;
    const json encoded = json::parse(there.out);
    for (const json& id : encoded["ids"]) {
      if (!ids.empty()) ids += ',';
      ids += id.dump();
    }
    const auto back = run_program({"tokenize", "--model", tokenizer(name), "--ids", ids, "--json"});
    REQUIRE(back.exit_code == 0);
    CHECK(json::parse(back.out)["text"] == text);
  }
}

TEST_CASE("special tokens in a text are text, unless they are to be parsed") {
  const auto ids = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"tokenize", "--model",      tokenizer("llama3_like"),
                                          "--text",   "x<|eot_id|>y", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json::parse(run_program(arguments).out)["ids"].get<std::vector<int>>();
  };
  CHECK(ids({"--specials", "parse"}) == std::vector<int>{87, 422, 88});
  for (const int id : ids({})) CHECK(id < 420);
  CHECK(ids({}) == ids({"--specials", "text"}));
}

TEST_CASE("ppl: the same book with special tokens as text and parsed; the row says which") {
  const TextModel model;
  const std::string book = "a<|eot_id|>b and so on";
  const auto text = json::parse(model.ppl(book, {}).out)[0];
  const auto parsed = json::parse(model.ppl(book, {"--specials", "parse"}).out)[0];
  CHECK(text["specials"] == "text");
  CHECK(parsed["specials"] == "parse");
  CHECK(text["tokens_scored"].get<int>() > parsed["tokens_scored"].get<int>());
  CHECK(text["data_sha256"] == parsed["data_sha256"]);
  CHECK(text["config_hash"] != parsed["config_hash"]);
  CHECK(text["bits_per_byte"].is_number());
}

TEST_CASE("bytes that are no UTF-8: an error that names file and place, or one U+FFFD each") {
  const TextModel model;
  struct Case {
    std::string bytes;
    int place;
  };
  for (const Case& c :
       {Case{"a\xff"
             "b and more",
             1},
        Case{"caf\xe9", 3}, Case{"\xed\xa0\x80 and more", 0}, Case{"\xc0\xaf and more", 0}}) {
    CAPTURE(c.place);
    const std::string message = fault_of(model.ppl(c.bytes, {}), 3);
    CAPTURE(message);
    CHECK(contains(message, "book.txt"));
    CHECK(contains(message, std::to_string(c.place)));
    const auto replaced = model.ppl(c.bytes, {"--invalid-utf8", "replace"});
    REQUIRE(replaced.exit_code == 0);
    CHECK(contains(json::parse(replaced.out)[0]["warnings"].dump(), "U+FFFD"));
  }
  const auto nul = model.ppl(std::string("a\0b and more", 12), {});
  CHECK(nul.exit_code == 0);
}

// A half character must not end a finished run: JSON is text, and the writer says U+FFFD.
TEST_CASE("half an emoji in an answer, a name that is no UTF-8: the JSON is still written") {
  const auto whole = json::parse(
      run_program({"tokenize", "--model", tokenizer("llama3_like"), "--text", "🙂", "--json"})
          .out);
  REQUIRE(whole["ids"].size() > 1);
  const auto half = run_program(
      {"tokenize", "--model", tokenizer("llama3_like"), "--ids", whole["ids"][0].dump(), "--json"});
  REQUIRE(half.exit_code == 0);
  CHECK(contains(json::parse(half.out)["text"].get<std::string>(), "\xef\xbf\xbd"));
  const TextModel model;
  const auto result = model.ppl("some words of a book", {}, "b\xff.txt");
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(json::parse(result.out)[0]["status"] == "ok");
}

TEST_CASE("a model without a tokenizer can only be given ids") {
  const test::TempDir folder;
  const auto book = folder.write("book.txt", "words");
  const auto result = run_program({"ppl", "--model", test::tiny_model("llama").string(), "--data",
                                   book.string(), "--policy", "full"});
  CHECK(contains(fault_of(result, 3), "tokenizer"));
  const auto both = run_program({"ppl", "--model", test::tiny_model("llama").string(), "--data",
                                 book.string(), "--ids", "1,2", "--policy", "full"});
  CHECK(both.exit_code == 2);
}

}  // namespace
}  // namespace kvbench
