// Arbitrary sample files and prompt files of the question task, and arbitrary outputs under every
// answer metric. The first byte of the input says which. What is accepted must be usable: samples
// have answers, prompts can be filled, scores lie in [0, 1].
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "dataset/answer_set.hpp"
#include "metric/answer_metric.hpp"
#include "task/qa_prompts.hpp"
#include "text/utf8.hpp"

namespace {

void require(bool promise) {
  if (!promise) std::abort();
}

void check_samples(std::string_view text) {
  try {
    for (const kvbench::AnswerSample& sample : kvbench::parse_answer_samples(text, "fuzz")) {
      require(!sample.answers.empty() && !sample.dataset.empty() && !sample.id.empty());
      require(sample.where.starts_with("fuzz, line "));
    }
  } catch (const kvbench::DataError& error) {
    require(std::string_view(error.what()).starts_with("fuzz, line "));
  }
}

void check_prompts(std::string_view text) {
  try {
    kvbench::AnswerSample sample;
    kvbench::AnswerSample other;
    sample.input.assign(1, 'a');
    other.input.assign(1, 'b');
    for (const auto& [name, dataset] : kvbench::parse_qa_prompts(text, "fuzz").datasets) {
      const bool differs =
          dataset.prompt.before_context(sample) != dataset.prompt.before_context(other);
      require(dataset.prompt.input_before_context() == differs);
      dataset.prompt.after_context(sample);
      require(dataset.metric != nullptr && dataset.max_new_tokens > 0);
    }
  } catch (const kvbench::ConfigError& error) {
    require(std::string_view(error.what()).starts_with("fuzz: "));
  }
}

// Output and answer lie on both sides of the first line break.
void check_scores(std::string_view bytes) {
  std::size_t replaced = 0;
  const std::string text = kvbench::replace_invalid_utf8(bytes, replaced);
  const std::size_t cut = std::min(text.find('\n'), text.size());
  const std::string answer = text.substr(0, cut);
  const std::vector<std::string> classes{answer, "a", "ab", "b"};
  for (const kvbench::AnswerMetric& metric : kvbench::answer_metrics()) {
    try {
      const double score = metric.score({std::string_view(text).substr(cut), answer, classes});
      require(score >= 0.0 && score <= 1.0);
    } catch (const kvbench::DataError&) {
      // An answer that names no paragraph.
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 's':
      check_samples(text);
      break;
    case 'p':
      check_prompts(text);
      break;
    default:
      check_scores(text.substr(0, 2000));
  }
  return 0;
}
