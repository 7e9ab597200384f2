// F1 of two bags of words (SQuAD's measure) or, for Chinese, of characters.
// The benchmark cuts Chinese into words with a dictionary (jieba); no such dictionary is here, so
// its scores of Chinese answers differ from these.
#include <algorithm>
#include <map>

#include "metric/answer_metric.hpp"
#include "metric/words.hpp"
#include "text/letters.hpp"

namespace kvbench {
namespace {

using Words = std::vector<std::u32string>;

bool is_ascii_punctuation(char32_t c) {
  return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) ||
         (c >= 0x7B && c <= 0x7E);
}

// The punctuation that the benchmark removes from Chinese answers: full-width and half-width forms,
// brackets, dashes and quotation marks. It is no Unicode category: U+3003, for one, is there, but
// U+3000 is not.
bool is_chinese_punctuation(char32_t c) {
  static constexpr std::u32string_view kOthers =
      U"\uFF01\uFF1F\uFF61\u3002\uFF5F\uFF60\uFF62\uFF63\uFF64\u3001\u3003\u300B\u300C\u300D\u300E"
      U"\u300F\u3010\u3011\u3014\u3015\u3016\u3017\u3018\u3019\u301A\u301B\u301C\u301D\u301E\u301F"
      U"\u3030\u303E\u303F\u2013\u2014\u2018\u2019\u201B\u201C\u201D\u201E\u201F\u2026\u2027\uFE4F";
  const bool full_width = (c >= 0xFF02 && c <= 0xFF0F) || (c >= 0xFF1A && c <= 0xFF1E) ||
                          c == 0xFF20 || (c >= 0xFF3B && c <= 0xFF40) ||
                          (c >= 0xFF5B && c <= 0xFF5E);
  return full_width || kOthers.find(c) != std::u32string_view::npos;
}

// A word of word characters alone: what stands between two of Python's \b.
bool is_article(std::u32string_view run) {
  return run == U"a" || run == U"an" || run == U"the";
}

// Lower case, no ASCII punctuation, no articles.
Words normal_words(std::string_view text) {
  std::u32string kept;
  for (const char32_t c : code_points(lower_case(text))) {
    if (!is_ascii_punctuation(c)) kept.push_back(c);
  }
  std::u32string without;
  for (std::size_t begin = 0; begin < kept.size();) {
    std::size_t end = begin;
    while (end < kept.size() && is_word_character(kept[end])) ++end;
    const std::u32string_view run(kept.data() + begin, end - begin);
    if (is_article(run)) {
      without.push_back(U' ');
    } else {
      without.append(run);
    }
    if (end < kept.size()) without.push_back(kept[end++]);
    begin = end;
  }
  return split_words(without);
}

Words normal_characters(std::string_view text) {
  Words characters;
  for (const char32_t c : code_points(lower_case(text))) {
    if (is_ascii_punctuation(c) || is_chinese_punctuation(c) || is_python_space(c)) continue;
    characters.emplace_back(1, c);
  }
  return characters;
}

double bag_f1(const Words& output, const Words& answer) {
  std::map<std::u32string_view, std::int64_t> left;
  for (const std::u32string& word : answer) ++left[word];
  std::int64_t same = 0;
  for (const std::u32string& word : output) {
    const auto found = left.find(word);
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++same;
  }
  if (same == 0) return 0.0;
  const double precision = static_cast<double>(same) / static_cast<double>(output.size());
  const double recall = static_cast<double>(same) / static_cast<double>(answer.size());
  return 2.0 * precision * recall / (precision + recall);
}

}  // namespace

double qa_f1(const AnswerCase& answer_case) {
  return bag_f1(normal_words(answer_case.output), normal_words(answer_case.answer));
}

double qa_f1_characters(const AnswerCase& answer_case) {
  return bag_f1(normal_characters(answer_case.output), normal_characters(answer_case.answer));
}

}  // namespace kvbench
