// Definitions of answer_match.hpp. Letters, cases and normal forms come from utf8proc.
#include "metric/answer_match.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "core/error.hpp"
#include "text/utf8.hpp"

namespace kvbench {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::u32string code_points(std::string_view text) {
  std::u32string points;
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    points.push_back(step.kind == Utf8Kind::complete ? step.code_point : U'\uFFFD');
    text.remove_prefix(step.byte_count);
  }
  return points;
}

// NFC, case folded, white space collapsed and none at the ends.
std::u32string folded(std::string_view text) {
  utf8proc_uint8_t* raw = nullptr;
  const auto count = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
      static_cast<utf8proc_ssize_t>(text.size()), &raw,
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD));
  if (count < 0) data_error("Unicode normalization failed: {}", utf8proc_errmsg(count));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(raw, &std::free);
  std::u32string out;
  bool gap = false;
  for (const char32_t c :
       code_points({reinterpret_cast<const char*>(raw), static_cast<std::size_t>(count)})) {
    if (is_white_space(c)) {
      gap = !out.empty();
      continue;
    }
    if (gap) out.push_back(U' ');
    gap = false;
    out.push_back(c);
  }
  return out;
}

std::u32string lower_case(std::string_view text) {
  std::u32string out = code_points(text);
  for (char32_t& c : out) {
    c = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  }
  return out;
}

// Letters, digits, and the marks that belong to a letter.
bool is_word_part(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return true;
    default:
      return false;
  }
}

bool has_whole_words(const std::u32string& text, const std::u32string& words) {
  if (words.empty()) return false;
  for (std::size_t at = text.find(words); at != std::u32string::npos;
       at = text.find(words, at + 1)) {
    const std::size_t end = at + words.size();
    const bool starts = at == 0 || !is_word_part(text[at - 1]) || !is_word_part(words.front());
    const bool ends = end == text.size() || !is_word_part(text[end]) || !is_word_part(words.back());
    if (starts && ends) return true;
  }
  return false;
}

// Length of the number that begins at a digit: "7,421.50" with its commas before groups of three
// and its decimals.
std::size_t number_length(std::string_view text) {
  const auto digits_from = [&](std::size_t at) {
    std::size_t n = 0;
    while (at + n < text.size() && is_digit(text[at + n])) ++n;
    return n;
  };
  std::size_t length = digits_from(0);
  if (length <= 3) {
    while (length < text.size() && text[length] == ',' && digits_from(length + 1) == 3) length += 4;
  }
  if (length < text.size() && text[length] == '.') {
    const std::size_t decimals = digits_from(length + 1);
    if (decimals > 0) length += 1 + decimals;
  }
  return length;
}

// The first `most` numbers of a text, without their commas.
std::vector<std::string> first_numbers(std::string_view text, std::size_t most) {
  std::vector<std::string> numbers;
  for (std::size_t at = 0; at < text.size() && numbers.size() < most;) {
    if (!is_digit(text[at])) {
      ++at;
      continue;
    }
    const std::size_t length = number_length(text.substr(at));
    std::string number(text.substr(at, length));
    std::erase(number, ',');
    numbers.push_back(std::move(number));
    at += length;
  }
  return numbers;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

}  // namespace

AnswerMatch match_answers(std::span<const std::string> expected, std::string_view answer) {
  AnswerMatch match;
  const std::vector<std::string> numbers = first_numbers(answer, expected.size());
  const std::u32string words = folded(answer);
  for (const std::string& text : expected) {
    const bool there = is_number(text)
                           ? std::find(numbers.begin(), numbers.end(), text) != numbers.end()
                           : has_whole_words(words, folded(text));
    match.strict += there ? 1 : 0;
    match.contains += contains_text(answer, text) ? 1 : 0;
  }
  return match;
}

std::int64_t leading_characters_right(std::string_view expected, std::string_view answer) {
  std::u32string found = folded(answer);
  if (is_number(expected)) {
    const auto numbers = first_numbers(answer, 1);
    found = numbers.empty() ? U"" : code_points(numbers.front());
  } else {
    found.erase(found.begin(), std::find_if(found.begin(), found.end(), is_word_part));
  }
  const std::u32string wanted = folded(expected);
  const auto [end, unused] =
      std::mismatch(wanted.begin(), wanted.end(), found.begin(), found.end());
  return end - wanted.begin();
}

bool contains_text(std::string_view text, std::string_view expected) {
  return !expected.empty() && lower_case(text).find(lower_case(expected)) != std::u32string::npos;
}

}  // namespace kvbench
