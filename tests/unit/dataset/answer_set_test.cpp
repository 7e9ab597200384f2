// Samples in LongBench's format: what is read, and what is refused with file, line and key.
#include "dataset/answer_set.hpp"

#include <doctest/doctest.h>

#include "core/error.hpp"
#include "io/sha256.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

const std::string kFolder = std::string(KVBENCH_SOURCE_DIR) + "/tests/golden/qa";

std::string refusal(const std::string& content) {
  return test::error_text<DataError>([&] { parse_answer_samples(content, "x.jsonl"); });
}

TEST_CASE("a folder: every .jsonl in order of names, one hash of all") {
  const AnswerSet set = open_answer_set(kFolder);
  REQUIRE(set.samples.size() == 10);
  CHECK(set.name == "qa");
  CHECK(set.samples.front().dataset == "trec");
  CHECK(set.samples.front().classes == std::vector<std::string>{"Person", "Number", "Place"});
  CHECK(set.samples.back().dataset == "passage_retrieval_en");
  const AnswerSet examples = open_answer_set(kFolder + "/examples.jsonl");
  const AnswerSet stories = open_answer_set(kFolder + "/stories.jsonl");
  CHECK(set.content_sha256 ==
        sha256_hex(examples.content_sha256 + "\n" + stories.content_sha256 + "\n"));
  CHECK(set.bytes == examples.bytes + stories.bytes);
  CHECK(stories.samples.front().answers == std::vector<std::string>{"Marta Voss", "Marta"});
  CHECK(stories.samples.front().id == "narrativeqa-1");
  CHECK(stories.samples.front().classes.empty());
}

TEST_CASE("members that may be missing; blank lines, a byte-order mark, CRLF") {
  const auto samples = parse_answer_samples(
      "\xEF\xBB\xBF{\"input\":\"\",\"context\":\"c\",\"answers\":[\"a\"],\"dataset\":\"d\"}\r\n"
      "\n  \n"
      "{\"input\":\"i\",\"context\":\"\",\"answers\":[\"\"],\"dataset\":\"d\",\"all_classes\":null,"
      "\"length\":null,\"language\":\"zh\"}",
      "x.jsonl");
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].id == "line 1");
  CHECK(samples[0].language.empty());
  CHECK(samples[1].id == "line 4");
  CHECK(samples[1].where == "x.jsonl, line 4");
  CHECK(samples[1].language == "zh");
}

TEST_CASE("what is wrong is refused with file, line and key") {
  const std::string good =
      "{\"input\":\"\",\"context\":\"c\",\"answers\":[\"a\"],\"dataset\":\"d\"";
  const struct {
    std::string line;
    const char* expected;
  } cases[] = {
      {good + ",\"all_class\":[]}", "all_classes"},
      {good + ",\"all_classes\":\"a\"}", "all_classes: expected an array of strings, found string"},
      {good + ",\"all_classes\":[\"a\",3]}", "all_classes[1]: expected a string, found number"},
      {good + ",\"length\":-1}", "length"},
      {good + ",\"_id\":7}", "_id"},
      {R"({"context":"c","answers":["a"],"dataset":"d"})", "input"},
      {R"({"input":"","answers":["a"],"dataset":"d"})", "context"},
      {R"({"input":"","context":"c","answers":["a"]})", "dataset"},
      {R"({"input":"","context":"c","answers":["a"],"dataset":""})", "dataset"},
      {R"({"input":"","context":"c","answers":[],"dataset":"d"})",
       "answers: expected at least one"},
      {R"({"input":"","context":"c","dataset":"d"})", "answers: expected at least one"},
      {R"({"input":"","context":"c","answers":"a","dataset":"d"})", "answers: expected an array"},
      {"[1]", "object"},
      {"{\"input\":", "line"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.line);
    const std::string message = refusal(good + "}\n" + c.line);
    CHECK_MESSAGE(test::contains(message, "x.jsonl, line 2"), message);
    CHECK_MESSAGE(test::contains(message, c.expected), message);
  }
}

TEST_CASE("paths that hold nothing") {
  CHECK_THROWS_AS(open_answer_set(""), ConfigError);
  CHECK_THROWS_AS(open_answer_set("/no/such/path"), ConfigError);
  const test::TempDir folder;
  CHECK(test::contains(
      test::error_text<DataError>([&] { open_answer_set(folder.path().string()); }), ".jsonl"));
  const auto file = folder.write("empty.jsonl", "\n\n");
  CHECK(test::contains(test::error_text<DataError>([&] { open_answer_set(file.string()); }),
                       "no samples"));
}

}  // namespace
}  // namespace kvbench
