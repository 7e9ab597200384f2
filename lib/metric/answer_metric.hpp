// Scores of one generated answer against one reference answer, from 0 to 1, as the LongBench
// benchmark defines them. A new one is one file and a row in registry.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvbench {

// All of it valid UTF-8.
struct AnswerCase {
  std::string_view output;  // what the model wrote
  std::string_view answer;
  std::span<const std::string> classes = {};  // of a classification: every possible answer
};

struct AnswerMetric {
  const char* name;
  const char* summary;  // one line
  // DataError, without a place, for a reference that cannot be one.
  double (*score)(const AnswerCase& answer_case);
};

std::span<const AnswerMetric> answer_metrics();
// Null for an unknown name.
const AnswerMetric* find_answer_metric(std::string_view name);

// The best score over several reference answers. Precondition: at least one.
double best_score(const AnswerMetric& metric, std::string_view output,
                  std::span<const std::string> answers, std::span<const std::string> classes);

}  // namespace kvbench
