// Every prompt of a needle run, made before any is asked: all policies get the same ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "task/needle.hpp"
#include "task/needle_prompt.hpp"
#include "text/tokenizer.hpp"

namespace kvbench {

struct NeedleItem {
  std::string template_name;
  std::int64_t length = 0;  // as asked for
  double depth = 0.0;       // of the needle that is asked about, as asked for
  std::int64_t repeat = 0;
  std::int64_t query = 0;  // which of the template's questions
  bool control = false;    // no needle; its depth means nothing
  NeedlePrompt prompt;
  std::vector<NeedlePlace> asked;  // the needles that hold the answers
  std::vector<std::string> answers;
  std::vector<std::int32_t> reply;  // the right answer's ids
  std::int64_t new_tokens = 0;
  double chance = 0.0;
};

struct NeedlePlan {
  std::vector<NeedleItem> items;
  NeedleFrame frame;
  std::string bos;  // "none", or the id that stands first
};

// Prompts of one template, length and repeat share haystack, facts and questions at every depth, so
// that one control serves them. ConfigError where a template does not fit a length, where an answer
// stands in the question or cannot be kept out of the haystack.
NeedlePlan plan_needles(const NeedleRequest& request, const TokenSource& source,
                        const NeedleFrame& frame);

}  // namespace kvbench
