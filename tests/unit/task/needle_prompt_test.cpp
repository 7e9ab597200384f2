// Prompts with needles: exact lengths whatever the tokenizer makes of the pieces, unbroken needles,
// depths, sentences, short and empty haystacks; templates and their checks.
#include "task/needle_prompt.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/error.hpp"
#include "metric/answer_match.hpp"
#include "task/needle_plan.hpp"
#include "task/needle_template.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using Ids = std::vector<std::int32_t>;

// Byte-level, so that any text has ids; emoji and SentencePiece beside it.
std::unique_ptr<Tokenizer> tokenizer(const std::string& name = "llama3_like") {
  return Tokenizer::load(test::golden_directory() / "tokenizers" / name);
}

Ids numbers(std::int32_t first, std::int64_t n) {
  Ids ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back(first + static_cast<std::int32_t>(i));
  return ids;
}

TEST_CASE("needle prompts: exactly as many tokens as asked for, the needle unbroken") {
  const std::string emoji = "\U0001F468\u200D\U0001F469\u200D\U0001F467 \U0001F642\u00e9 ";
  std::string text;
  for (int i = 0; i < 40; ++i) text += emoji;
  for (const char* name : {"llama3_like", "llama2_like_always"}) {
    const auto words = tokenizer(name);
    const Ids ids = words->encode(text);
    const Haystack haystack(ids, *words, false);
    const NeedlePieces pieces{numbers(10, 10), {numbers(30, 12)}, numbers(50, 7)};
    for (const std::int64_t length : {64, 65, 127}) {
      for (const double depth : {0.0, 0.3, 1.0}) {
        CAPTURE(length);
        const NeedlePrompt prompt =
            assemble_needle_prompt(pieces, haystack, 3, length, std::array{depth});
        CHECK(std::ssize(prompt.context) + std::ssize(prompt.question) == length);
        CHECK(prompt.question == pieces.question);
        const auto at = prompt.context.begin() + prompt.needles[0].first;
        CHECK(Ids(at, at + 12) == pieces.needles[0]);
        Ids hay(prompt.context.begin() + 10, at);
        hay.insert(hay.end(), at + 12, prompt.context.end());
        CHECK(hay == haystack.cut(3, length - 29));
        CHECK(prompt.needles[0].first - 10 == std::llround(depth * double(length - 29)));
      }
    }
  }
}

TEST_CASE("needle prompts: several needles in the order of their depths") {
  const auto words = tokenizer();
  const Ids ids = numbers(100, 50);
  const Haystack haystack(ids, *words, false);
  const NeedlePieces pieces{{1}, {{7, 7}, {8}, {9}}, {2}};
  const NeedlePrompt prompt =
      assemble_needle_prompt(pieces, haystack, 0, 16, std::array{0.9, 0.5, 0.5});
  CHECK(prompt.context == Ids{1, 100, 101, 102, 103, 104, 8, 9, 105, 106, 107, 108, 7, 7, 109});
  CHECK(prompt.needles[0].first == 12);
  CHECK(prompt.needles[1].first == 6);
  CHECK(prompt.needles[2].first == 7);
  CHECK(prompt.needles[0].depth == doctest::Approx(0.9));
}

TEST_CASE("needle prompts: a haystack that is short is begun again, an empty one is refused") {
  const auto words = tokenizer();
  const Ids ids{100, 101, 102};
  const Haystack haystack(ids, *words, false);
  const NeedlePrompt prompt =
      assemble_needle_prompt({{1}, {}, {2}}, haystack, 0, 9, std::vector<double>{});
  CHECK(prompt.context == Ids{1, 100, 101, 102, 100, 101, 102, 100});
  CHECK(prompt.haystack_repeats == 3);
  const Ids none;
  CHECK(test::error_text<ConfigError>([&] {
          Haystack(none, *words, false);
        }).starts_with("the haystack has 0 tokens"));
  CHECK(test::error_text<ConfigError>([&] {
          assemble_needle_prompt({{1, 2}, {{3, 4}}, {5}}, haystack, 0, 4, std::array{0.5});
        }).starts_with("a prompt of 4 tokens: introduction, needles and question take 5"));
}

TEST_CASE("needle prompts: a needle stands before a sentence") {
  const auto words = tokenizer();
  const std::string text = "One two three. Then Mr. Knox said \"No!\" And 3.5 more? Last words";
  const Ids ids = words->encode(text);
  const Haystack haystack(ids, *words, true);
  std::vector<std::string> beginnings;
  for (int i = 0; i <= 100; ++i) {
    const auto at = haystack.place(ids, i / 100.0);
    CHECK(at <= std::llround(i / 100.0 * double(ids.size())));
    const std::string rest = words->decode(std::span(ids).subspan(static_cast<std::size_t>(at)));
    if (beginnings.empty() || beginnings.back() != rest) beginnings.push_back(rest);
  }
  for (std::string& rest : beginnings) rest.erase(0, rest.find_first_not_of(' '));
  const std::vector<std::string> expected{text,
                                          "Then Mr. Knox said \"No!\" And 3.5 more? Last words",
                                          "And 3.5 more? Last words", "Last words"};
  // A blank may be a token of its own, before which a sentence begins as well.
  beginnings.erase(std::unique(beginnings.begin(), beginnings.end()), beginnings.end());
  CHECK(beginnings == expected);
}

TEST_CASE("needle templates: the answer is in one needle and in no question; chance levels") {
  for (const NeedleTemplate& row : needle_templates()) {
    CAPTURE(row.name);
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      Rng rng(seed);
      const NeedleCase made = row.make(rng, {});
      CHECK_NOTHROW(check_needle_case(row.name, made));
      Rng again(seed);
      CHECK(row.make(again, {}).needles == made.needles);
      for (const NeedleQuestion& question : made.questions) {
        CHECK(question.chance >= 0.0);
        CHECK(question.chance <= 0.25);
        for (const std::string& answer : question.answers) {
          CHECK(contains_text(question.reply, answer));
        }
      }
    }
  }
  Rng rng(1);
  CHECK(find_needle_template("passkey").make(rng, {}).questions[0].chance ==
        doctest::Approx(1.0 / 90000));
  CHECK(find_needle_template("word").make(rng, {}).questions[0].chance ==
        doctest::Approx(1.0 / 48));
  CHECK(find_needle_template("multi_key").make(rng, {}).questions.size() == 1);
  CHECK(find_needle_template("multi_query").make(rng, {}).questions.size() == 4);
  CHECK(find_needle_template("multi_value").make(rng, {}).questions[0].answers.size() == 3);
  CHECK(test::contains(test::error_text<ConfigError>([] { find_needle_template("passkeys"); }),
                       "did you mean passkey?"));
}

TEST_CASE("needle templates: a needle of one's own is checked") {
  const auto check = [](OwnNeedle own) {
    return test::error_text<ConfigError>([&] {
      Rng rng(0);
      check_needle_case("sentence", find_needle_template("sentence").make(rng, own));
    });
  };
  const std::string best = "The best thing to do in San Francisco is eat a sandwich.";
  CHECK(check({best, "What is best?", "", {"eat a sandwich"}}) == "no error");
  CHECK(test::contains(check({"It is 7421.", "Is it 7421?", "", {"7421"}}),
                       "the answer \"7421\" stands in the question"));
  CHECK(test::contains(check({best, "What?", "", {"swim"}}), "must stand in exactly one needle"));
  CHECK(test::contains(check({best, "", "", {"eat"}}), "together"));
  CHECK(test::contains(check({best, "What?", "", {}}), "together"));
}

}  // namespace
}  // namespace kvbench
