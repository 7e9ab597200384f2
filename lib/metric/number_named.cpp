// Numbers in the output: the share of them that are the right paragraph, or the right count.

#include "core/error.hpp"
#include "core/printable.hpp"
#include "metric/answer_metric.hpp"
#include "metric/words.hpp"
#include "text/letters.hpp"

namespace kvbench {
namespace {

// Runs of decimal digits, as they are written: "07" is not "7".
std::vector<std::u32string> numbers_of(std::string_view text) {
  std::vector<std::u32string> numbers;
  bool inside = false;
  for (const char32_t c : code_points(text)) {
    const bool digit = is_decimal_digit(c);
    if (digit && !inside) numbers.emplace_back();
    if (digit) numbers.back().push_back(c);
    inside = digit;
  }
  return numbers;
}

double share_right(std::string_view output, const std::u32string& right) {
  const auto numbers = numbers_of(output);
  if (numbers.empty()) return 0.0;
  std::int64_t same = 0;
  for (const std::u32string& number : numbers) same += number == right ? 1 : 0;
  return static_cast<double>(same) / static_cast<double>(numbers.size());
}

// The number after the first `word` that one follows.
std::u32string paragraph_of(std::string_view answer, std::string_view word) {
  for (std::size_t at = answer.find(word); at != std::string_view::npos;
       at = answer.find(word, at + 1)) {
    std::u32string number;
    for (const char32_t c : code_points(answer.substr(at + word.size()))) {
      if (!is_decimal_digit(c)) break;
      number.push_back(c);
    }
    if (!number.empty()) return number;
  }
  data_error("expected \"{}N\", found \"{}\"", word, printable(answer));
}

}  // namespace

double paragraph_named(const AnswerCase& answer_case) {
  return share_right(answer_case.output, paragraph_of(answer_case.answer, "Paragraph "));
}

double paragraph_named_zh(const AnswerCase& answer_case) {
  return share_right(answer_case.output,
                     paragraph_of(answer_case.answer, "\xE6\xAE\xB5\xE8\x90\xBD"));
}

double number_named(const AnswerCase& answer_case) {
  return share_right(answer_case.output, code_points(answer_case.answer));
}

}  // namespace kvbench
