// Table of answer metrics.
#include <algorithm>
#include <array>

#include "metric/answer_metric.hpp"

namespace kvbench {

// Each is defined in the file named beside it.
double qa_f1(const AnswerCase& answer_case);             // token_f1.cpp
double qa_f1_characters(const AnswerCase& answer_case);  // token_f1.cpp
double rouge_l(const AnswerCase& answer_case);           // rouge_l.cpp
double rouge_l_characters(const AnswerCase& answer_case);
double class_named(const AnswerCase& answer_case);      // class_named.cpp
double paragraph_named(const AnswerCase& answer_case);  // number_named.cpp
double paragraph_named_zh(const AnswerCase& answer_case);
double number_named(const AnswerCase& answer_case);
double line_blocks(const AnswerCase& answer_case);  // code_line.cpp
double line_edits(const AnswerCase& answer_case);

std::span<const AnswerMetric> answer_metrics() {
  static constexpr std::array kTable{
      AnswerMetric{"qa_f1", "F1 of words, without case, punctuation and English articles", qa_f1},
      AnswerMetric{"qa_f1_zh", "F1 of characters, without blanks and Chinese punctuation",
                   qa_f1_characters},
      AnswerMetric{"rouge_l", "ROUGE-L (F) of words, sentence by sentence", rouge_l},
      AnswerMetric{"rouge_l_zh", "ROUGE-L (F) of characters", rouge_l_characters},
      AnswerMetric{"classification", "the right class is named, divided by the classes named",
                   class_named},
      AnswerMetric{"retrieval", "share of the numbers written that are the answer's paragraph",
                   paragraph_named},
      AnswerMetric{"retrieval_zh", "likewise, where the answer is a Chinese one",
                   paragraph_named_zh},
      AnswerMetric{"count", "share of the numbers written that are the answer", number_named},
      AnswerMetric{"code_similarity", "likeness of the first line of code, by matching blocks",
                   line_blocks},
      AnswerMetric{"code_similarity_indel", "the same by insertions and deletions", line_edits},
  };
  return kTable;
}

const AnswerMetric* find_answer_metric(std::string_view name) {
  const auto table = answer_metrics();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const AnswerMetric& metric) { return name == metric.name; });
  return found == table.end() ? nullptr : &*found;
}

double best_score(const AnswerMetric& metric, std::string_view output,
                  std::span<const std::string> answers, std::span<const std::string> classes) {
  double best = 0.0;
  for (const std::string& answer : answers) {
    best = std::max(best, metric.score({output, answer, classes}));
  }
  return best;
}

}  // namespace kvbench
