// From the samples on disk to prompts of token ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataset/answer_set.hpp"
#include "task/qa.hpp"
#include "task/qa_prompts.hpp"
#include "text/tokenizer.hpp"

namespace kvbench {

struct QaItem {
  const AnswerSample* sample = nullptr;
  const QaDataset* dataset = nullptr;
  std::vector<std::int32_t> ids;   // the prompt, as it is fed
  std::size_t question_begin = 0;  // first of `ids` that belongs to what stands behind the context
  std::vector<std::int32_t> answer;  // the first reference answer, for policies that look ahead
  std::int64_t whole_tokens = 0;     // of the prompt before its middle was taken out
  bool truncated = false;
};

// `items` point into `data` and `prompts`, which do not move once read.
struct QaInput {
  AnswerSet data;
  QaPrompts prompts;
  std::unique_ptr<Tokenizer> tokenizer;
  NeedleFrame frame;  // what stands around prompts that are a user's message
  std::string bos;    // "none", or the id that came first
  std::vector<QaItem> items;
  std::vector<std::string> warnings;
};

// ConfigError for a dataset without a prompt, DataError for samples that cannot be right.
std::unique_ptr<QaInput> read_qa_input(const QaRequest& request);

}  // namespace kvbench
