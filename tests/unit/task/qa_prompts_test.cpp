// Prompts of datasets: filling, the file that comes with the program, and strict reading.
#include "task/qa_prompts.hpp"

#include <doctest/doctest.h>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

AnswerSample sample() {
  AnswerSample sample;
  sample.input = "{context} why?";
  sample.context = "Because.";
  return sample;
}

std::string refusal(const std::string& text) {
  return test::error_text<ConfigError>([&] { parse_qa_prompts(text, "p.json"); });
}

TEST_CASE("templates: what stands before and behind the context; texts are not filled again") {
  const PromptTemplate prompt("A {{b}} {context}\n{input}|{input}.", "p");
  CHECK(prompt.before_context(sample()) == "A {b} ");
  CHECK(prompt.after_context(sample()) == "\n{context} why?|{context} why?.");
  CHECK_FALSE(prompt.input_before_context());
  const PromptTemplate early("{input}{context}", "p");
  CHECK(early.input_before_context());
  CHECK(early.after_context(sample()).empty());
}

TEST_CASE("templates: places that cannot be filled") {
  for (const char* text : {"", "{input}", "{context}{context}", "{context}{question}", "{context",
                           "{context}}", "} {context}", "{ context }", "{}{context}"}) {
    CAPTURE(std::string(text));
    const std::string message =
        test::error_text<ConfigError>([&] { PromptTemplate(text, "p.json: key x.prompt"); });
    CHECK_MESSAGE(test::contains(message, "p.json: key x.prompt: "), message);
  }
}

TEST_CASE("the prompts that come with the program: every dataset of the benchmark") {
  const QaPrompts prompts = read_qa_prompts("");
  CHECK(prompts.datasets.size() == 21);
  for (const auto& entry : prompts.datasets) {
    const QaDataset& dataset = entry.second;
    CAPTURE(entry.first);
    CHECK_FALSE(dataset.prompt.input_before_context());
    CHECK(dataset.max_new_tokens >= 32);
    CHECK(dataset.max_new_tokens <= 512);
  }
  for (const char* name : {"trec", "triviaqa", "samsum", "lsht"}) {
    CHECK(prompts.find(name, "").first_line);
  }
  CHECK(prompts.find("samsum", "").stop_at_newline);
  CHECK_FALSE(prompts.find("qmsum", "").first_line);
  CHECK(std::string(prompts.find("lsht", "").metric->name) == "classification");
  const std::string message =
      test::error_text<ConfigError>([&] { prompts.find("hotpot", "x.jsonl, line 3"); });
  CHECK(test::contains(message, "x.jsonl, line 3"));
  CHECK(test::contains(message, "did you mean hotpotqa"));
}

TEST_CASE("the first line of an output, where a dataset is scored by it") {
  QaDataset dataset{PromptTemplate("{context}", "p"), 8, find_answer_metric("qa_f1")};
  CHECK(dataset.scored_part("\n\na\nb") == "\n\na\nb");
  dataset.first_line = true;
  CHECK(dataset.scored_part("\n\na\nb") == "a");
  CHECK(dataset.scored_part("a") == "a");
  CHECK(dataset.scored_part(" \nb") == " ");
  CHECK(dataset.scored_part("\n\n").empty());
  CHECK(dataset.scored_part("").empty());
}

TEST_CASE("a file of prompts is read strictly") {
  const std::string good = R"("prompt": "{context}", "max_new_tokens": 4, "metric": "count")";
  CHECK(parse_qa_prompts("{\"x\": {" + good + "}}", "p.json").find("x", "").max_new_tokens == 4);
  const struct {
    std::string text;
    const char* expected;
  } cases[] = {
      {"[]", "object"},
      {"{\"x\": 3}", "key x: expected an object"},
      {"{\"x\": {" + good + ", \"firstline\": true}}", "did you mean first_line"},
      {"{\"x\": {" + good + ", \"first_line\": 1}}", "key x.first_line"},
      {R"({"x": {"prompt": "{context}", "max_new_tokens": 0, "metric": "count"}})",
       "key x.max_new_tokens"},
      {R"({"x": {"prompt": "{context}", "max_new_tokens": 4, "metric": "f1"}})",
       "key x.metric: expected one of qa_f1"},
      {R"({"x": {"prompt": "{text}", "max_new_tokens": 4, "metric": "count"}})", "key x.prompt"},
      {R"({"x": {"max_new_tokens": 4, "metric": "count"}})", "key x.prompt"},
      {"{\"x\": {" + good + "}, \"x\": {" + good + "}}", "x"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.text);
    const std::string message = refusal(c.text);
    CHECK_MESSAGE(test::contains(message, "p.json: "), message);
    CHECK_MESSAGE(test::contains(message, c.expected), message);
  }
  CHECK_THROWS_AS(read_qa_prompts("/no/such/prompts.json"), ConfigError);
}

}  // namespace
}  // namespace kvbench
