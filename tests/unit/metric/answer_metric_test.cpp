// Answer metrics against the published definitions, and what they refuse.
#include "metric/answer_metric.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

TEST_CASE("every metric gives the scores of the published definitions") {
  const nlohmann::json reference = test::read_golden("answer_scores.json")["metrics"];
  CHECK(reference.size() == answer_metrics().size());
  for (const AnswerMetric& metric : answer_metrics()) {
    CAPTURE(std::string(metric.name));
    REQUIRE(reference.contains(metric.name));
    const auto& cases = reference[metric.name];
    const auto outputs = cases["outputs"].get<std::vector<std::string>>();
    const auto answers = cases["answers"].get<std::vector<std::string>>();
    const auto classes = cases.value("classes", std::vector<std::string>());
    CHECK(outputs.size() * answers.size() >= 40);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      for (std::size_t j = 0; j < answers.size(); ++j) {
        CAPTURE(outputs[i]);
        CAPTURE(answers[j]);
        const double expected = cases["scores"][i][j];
        const double found = metric.score({outputs[i], answers[j], classes});
        CHECK(std::abs(found - expected) < 1e-11);
      }
    }
  }
}

TEST_CASE("names of metrics are unique and found again; an unknown one is none") {
  std::set<std::string> names;
  for (const AnswerMetric& metric : answer_metrics()) {
    CHECK(names.insert(metric.name).second);
    CHECK(find_answer_metric(metric.name) == &metric);
  }
  CHECK(find_answer_metric("qa_f") == nullptr);
  CHECK(find_answer_metric("") == nullptr);
}

TEST_CASE("the best of several answers counts") {
  const AnswerMetric& metric = *find_answer_metric("qa_f1");
  const std::vector<std::string> answers{"a red boat", "the blue boat", "nothing"};
  CHECK(best_score(metric, "blue boat", answers, {}) == 1.0);
  CHECK(best_score(metric, "green boat", answers, {}) == 0.5);
  CHECK(best_score(metric, "train", answers, {}) == 0.0);
}

TEST_CASE("references that cannot be right are errors") {
  const auto message = [](const char* name, const AnswerCase& answer_case) {
    return test::error_text<DataError>([&] { find_answer_metric(name)->score(answer_case); });
  };
  CHECK(test::contains(message("retrieval", {"7", "page 7"}), "page 7"));
  CHECK(test::contains(message("retrieval_zh", {"7", "Paragraph 7"}), "Paragraph 7"));
  CHECK(test::contains(message("classification", {"x", "x"}), "without classes"));
}

}  // namespace
}  // namespace kvbench
