// Scoring of answers: what counts as right under each rule, and what never does.
#include "metric/answer_match.hpp"

#include <doctest/doctest.h>

#include <array>

namespace kvbench {
namespace {

AnswerMatch match(const std::string& expected, const std::string& answer) {
  return match_answers(std::array{expected}, answer);
}

TEST_CASE("answers: case, punctuation, white space, normal forms and numbers") {
  struct Row {
    const char* expected;
    const char* answer;
    int strict, contains;
  };
  constexpr Row kRows[] = {
      {"7421", "The magic number is 7421.", 1, 1},
      {"7421", "7421", 1, 1},
      {"7421", "74210", 0, 1},
      {"7421", "17421", 0, 1},
      {"7421", "7,421", 1, 0},
      {"7421", "7 421", 0, 0},
      {"7421", "7421.0", 0, 1},
      {"7421", "The magic number is 7421.0", 0, 1},
      {"7421", "It is not 1247.", 0, 0},
      {"7421", "seven four two one", 0, 0},
      {"7421", "", 0, 0},
      {"7421", "7420 or 7421 or 7422", 0, 1},
      {"7421", "74,21", 0, 0},
      {"7421", "7421,000", 1, 1},  // no group of thousands: a number, a comma, a number
      {"7421000", "7,421,000.", 1, 0},
      {"Dolores Park", "dolores park", 1, 1},
      {"Dolores Park", "Dolores  Park", 1, 0},
      {"Dolores Park", "Dolores\nPark", 1, 0},
      {"Dolores Park", "Dolores-Park", 0, 0},
      {"Dolores Park", "DOLORES PARK!!!", 1, 1},
      {"Dolores Park", "Dolores Parkway", 0, 1},
      {"Dolores Park", "Dolores Parkway, I mean Dolores Park", 1, 1},
      {"caf\u00e9", "CAF\u00c9", 1, 1},
      {"caf\u00e9", "cafe\u0301", 1, 0},
      {"caf\u00e9", "cafe", 0, 0},
      {"cafe", "cafe\u0301", 0, 1},
      {"Stra\u00dfe", "STRASSE", 1, 0},
      {"", "anything", 0, 0},
  };
  for (const Row& row : kRows) {
    CAPTURE(row.expected);
    CAPTURE(row.answer);
    CHECK(match(row.expected, row.answer).strict == row.strict);
    CHECK(match(row.expected, row.answer).contains == row.contains);
  }
}

TEST_CASE("answers: words of the question give nothing") {
  const std::array<std::string, 2> facts{"eat a sandwich", "Dolores Park"};
  const auto found = [&](const char* answer) { return match_answers(facts, answer).strict; };
  CHECK(found("The best thing to do in San Francisco is") == 0);
  CHECK(found("What is the best thing to do in San Francisco?") == 0);
  CHECK(found("") == 0);
  CHECK(found("eat a sandwich and sit in Dolores Park") == 2);
  CHECK(found("sit in Dolores Park") == 1);
}

TEST_CASE("answers: of several numbers, as many of the answer's first ones count") {
  const std::array<std::string, 2> numbers{"7421", "555"};
  CHECK(match_answers(numbers, "555 and 7421").strict == 2);
  CHECK(match_answers(numbers, "1, 555, 7421").strict == 1);
  CHECK(match_answers(numbers, "1, 555, 7421").contains == 2);
}

TEST_CASE("answers: a leading newline is no answer, and a cut number is no number") {
  CHECK(match("7421", "\n7421\n").strict == 1);
  CHECK(match("7421", "742").strict == 0);
  CHECK(match("7421", "742").contains == 0);
}

TEST_CASE("answers: leading characters right") {
  CHECK(leading_characters_right("41042", " 4102.\n") == 3);
  CHECK(leading_characters_right("41042", " 41042.") == 5);
  CHECK(leading_characters_right("41042", " a small piece of cloth") == 0);
  CHECK(leading_characters_right("41042", "1999, 41042") == 0);
  CHECK(leading_characters_right("41042", "") == 0);
  CHECK(leading_characters_right("lantern", " Lant") == 4);
}

}  // namespace
}  // namespace kvbench
