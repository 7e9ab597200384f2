// How the samples of each dataset become prompts, how much is generated, and what scores it: a JSON
// file with one member per dataset.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/answer_set.hpp"
#include "metric/answer_metric.hpp"

namespace kvbench {

// A text with {context} once and {input} any number of times; {{ and }} are braces.
class PromptTemplate {
 public:
  // Throws ConfigError that begins with `what`.
  PromptTemplate(std::string_view text, const std::string& what);

  std::string before_context(const AnswerSample& sample) const { return fill(before_, sample); }
  // What stands behind the context: the question.
  std::string after_context(const AnswerSample& sample) const { return fill(after_, sample); }
  bool input_before_context() const { return input_before_context_; }

 private:
  struct Piece {
    bool is_input;
    std::string text;  // where it is not the input
  };
  static std::string fill(const std::vector<Piece>& pieces, const AnswerSample& sample);

  std::vector<Piece> before_, after_;
  bool input_before_context_ = false;
};

struct QaDataset {
  PromptTemplate prompt;
  std::int64_t max_new_tokens;
  const AnswerMetric* metric;
  bool first_line = false;       // only the output's first line that is not empty is scored
  bool stop_at_newline = false;  // a line break ends the output, once it has begun
  bool chat = true;              // the prompt is a user's message, where the model has a template

  std::string_view scored_part(std::string_view output) const;
};

struct QaPrompts {
  std::string path;
  std::string sha256;
  std::map<std::string, QaDataset> datasets;  // by name

  // ConfigError for a dataset that the file does not have, with the nearest name and `where`.
  const QaDataset& find(const std::string& dataset, const std::string& where) const;
};

// ConfigError that names file and key. An empty path: those that come with the program.
QaPrompts read_qa_prompts(const std::string& path);
QaPrompts parse_qa_prompts(std::string_view text, const std::string& path);

}  // namespace kvbench
