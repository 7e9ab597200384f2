// The needle task: facts hidden in long prompts and asked for, over a grid of lengths and depths,
// under several policies; one record each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/record.hpp"
#include "task/needle_frame.hpp"
#include "task/needle_template.hpp"
#include "task/run_settings.hpp"
#include "task/task.hpp"
#include "task/token_source.hpp"

namespace kvbench {

struct NeedleRequest : RunSettings {
  TokenRequest haystack;
  std::vector<std::string> policies;
  bool strict = false;  // a policy that evicted nothing is an error
  std::vector<std::int64_t> lengths{512, 1024, 2048};
  std::vector<double> depths{0.1, 0.5, 0.9};
  std::int64_t repeats = 1;
  std::vector<std::string> templates{"passkey"};
  OwnNeedle own;
  bool hidden = false;           // the question, while the policy compresses
  std::int64_t new_tokens = 0;   // 0: what the right answer takes and 4 more
  bool length_is_total = false;  // lengths count the answer's new_tokens too
  bool between_sentences = true;
  bool control = true;  // ask without a needle, too
  ChatUse chat = ChatUse::automatic;
  bool allow_beyond_max = false;
};

// See Task.
void check_needle(const NeedleRequest& request);
TaskEstimate estimate_needle(const NeedleRequest& request);
std::vector<RunRecord> run_needle(const NeedleRequest& request, TaskContext& context);

}  // namespace kvbench
