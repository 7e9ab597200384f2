// Classification: which of the class names stand in the output, and is the right one among them.
#include <algorithm>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "metric/answer_metric.hpp"

namespace kvbench {

double class_named(const AnswerCase& answer_case) {
  if (answer_case.classes.empty()) data_error("a classification without classes");
  const std::string answer(answer_case.answer);
  std::vector<std::string_view> named;
  for (const std::string& name : answer_case.classes) {
    if (answer_case.output.find(name) != std::string_view::npos) named.emplace_back(name);
  }
  // Names that are part of the right one do not count against it. The benchmark removes them from
  // the list that it walks, so that the name after a removed one is never looked at; a score that
  // is to be comparable does the same.
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (named[i] != answer && answer.find(named[i]) != std::string::npos) {
      named.erase(std::find(named.begin(), named.end(), named[i]));
    }
  }
  const bool right = std::find(named.begin(), named.end(), answer) != named.end();
  return right ? 1.0 / static_cast<double>(named.size()) : 0.0;
}

}  // namespace kvbench
