// ROUGE-L (Lin 2004, section 3.2, summary level) as the Python package `rouge` computes it, which
// the benchmark uses: sentences end at full stops, and each distinct word counts once.
#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "metric/answer_metric.hpp"
#include "metric/words.hpp"

namespace kvbench {
namespace {

using WordIds = std::vector<std::int32_t>;
using WordSet = std::unordered_set<std::int32_t>;

// Numbers words in the order in which they are seen; equal words have equal numbers.
class WordNumbers {
 public:
  std::int32_t number(const std::u32string& word) {
    return numbers_.emplace(word, static_cast<std::int32_t>(numbers_.size())).first->second;
  }

 private:
  std::unordered_map<std::u32string, std::int32_t> numbers_;
};

// Parts between full stops. An empty part is none; one of blanks alone is a sentence whose only
// word is empty, as in the package.
std::vector<WordIds> sentences_of(const std::u32string& text, WordNumbers& numbers) {
  std::vector<WordIds> sentences;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(U'.', begin), text.size());
    if (end > begin) {
      WordIds ids;
      for (const std::u32string& word :
           split_words(std::u32string_view(text).substr(begin, end - begin))) {
        ids.push_back(numbers.number(word));
      }
      if (ids.empty()) ids.push_back(numbers.number({}));
      sentences.push_back(std::move(ids));
    }
    begin = end + 1;
  }
  return sentences;
}

// The words of a longest common subsequence. Of several the package takes the one that is found
// from the ends backwards, where a tie drops a word of `output`; the words of another may differ.
void add_common_words(const WordIds& answer, const WordIds& output, WordSet& common) {
  const std::size_t columns = output.size() + 1;
  std::vector<std::int32_t> length((answer.size() + 1) * columns, 0);
  for (std::size_t i = 1; i <= answer.size(); ++i) {
    for (std::size_t j = 1; j <= output.size(); ++j) {
      const std::size_t at = i * columns + j;
      length[at] = answer[i - 1] == output[j - 1] ? length[at - columns - 1] + 1
                                                  : std::max(length[at - columns], length[at - 1]);
    }
  }
  for (std::size_t i = answer.size(), j = output.size(); i > 0 && j > 0;) {
    const std::size_t at = i * columns + j;
    if (answer[i - 1] == output[j - 1]) {
      common.insert(answer[i - 1]);
      --i;
      --j;
    } else if (length[at - columns] > length[at - 1]) {
      --i;
    } else {
      --j;
    }
  }
}

double distinct_words(const std::vector<WordIds>& sentences) {
  WordSet words;
  for (const WordIds& sentence : sentences) words.insert(sentence.begin(), sentence.end());
  return static_cast<double>(words.size());
}

double summary_f(const std::u32string& output_text, const std::u32string& answer_text) {
  WordNumbers numbers;
  const auto output = sentences_of(output_text, numbers);
  const auto answer = sentences_of(answer_text, numbers);
  if (output.empty() || answer.empty()) return 0.0;
  WordSet common;
  for (const WordIds& answer_sentence : answer) {
    for (const WordIds& output_sentence : output) {
      add_common_words(answer_sentence, output_sentence, common);
    }
  }
  const auto n = static_cast<double>(common.size());
  const double recall = n / distinct_words(answer);
  const double precision = n / distinct_words(output);
  return 2.0 * (precision * recall / (precision + recall + 1e-8));
}

std::u32string spaced(std::string_view text) {
  std::u32string out;
  for (const char32_t c : code_points(text)) {
    if (!out.empty()) out.push_back(U' ');
    out.push_back(c);
  }
  return out;
}

}  // namespace

double rouge_l(const AnswerCase& answer_case) {
  return summary_f(code_points(answer_case.output), code_points(answer_case.answer));
}

double rouge_l_characters(const AnswerCase& answer_case) {
  return summary_f(spaced(answer_case.output), spaced(answer_case.answer));
}

}  // namespace kvbench
