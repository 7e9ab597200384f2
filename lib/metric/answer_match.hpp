// Whether a model's answer holds what it was asked for, by two rules that records give side by
// side.
//
// Strict: both sides in Unicode form NFC, case folded, runs of white space one blank; the expected
// words stand in the answer as whole words. For an expected number the answer's first number counts
// (its first k, where k numbers are asked for), without thousands commas, digit by digit.
// Contains: the expected text is part of the answer, letters in lower case and nothing else
// changed, as RULER has it: "74210" contains "7421".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvbench {

struct AnswerMatch {
  std::int64_t strict = 0;    // how many of the expected texts are there by that rule
  std::int64_t contains = 0;  // the same
};

// Both must be valid UTF-8. An expected text that is empty is never found.
AnswerMatch match_answers(std::span<const std::string> expected, std::string_view answer);

// How many of the expected text's leading characters the answer gets right: of its first number
// where a number is expected, else from its first letter or digit on. Case is ignored.
std::int64_t leading_characters_right(std::string_view expected, std::string_view answer);

// Whether `expected` stands anywhere in the text, by the contains rule.
bool contains_text(std::string_view text, std::string_view expected);

}  // namespace kvbench
