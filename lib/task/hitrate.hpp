// The hit-rate task: what a full cache attends to after a prompt, and how much of it each policy
// still holds. One pass of the full-cache twin serves all policies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "metric/hit_rate.hpp"
#include "report/record.hpp"
#include "task/run_settings.hpp"
#include "task/task.hpp"
#include "task/token_source.hpp"

namespace kvbench {

struct HitRateRequest : RunSettings {
  TokenRequest tokens;
  std::vector<std::string> policies;
  bool strict = false;        // a policy that evicted nothing is an error
  std::int64_t prompt = 0;    // tokens
  std::int64_t steps = 0;     // tokens fed after the prompt, each followed by one more
  std::int64_t offset = 0;    // first token of a document that is used
  std::int64_t segments = 1;  // prompts, one behind the other
  bool greedy = false;        // the steps are the full cache's own continuation, not the text's
  std::int64_t tail = 0;      // last tokens of the prompt that do not count
  bool nll = true;            // score the steps under every policy too
  std::vector<std::string> questions;  // the same prompt, followed by each of these
  HitRateOptions counting;
};

// One prompt and its continuation.
struct HitSegment {
  std::string document;
  std::int64_t first_token = 0;
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> inputs, targets;  // [steps]; empty until generated
  std::int64_t context = 0;                   // tokens of the prompt before a question
};

// DataError where the text is too short.
std::vector<HitSegment> cut_segments(const HitRateRequest& request, const TokenSource& source);

// See Task.
void check_hitrate(const HitRateRequest& request);
TaskEstimate estimate_hitrate(const HitRateRequest& request, TaskContext& context);
std::vector<RunRecord> run_hitrate(const HitRateRequest& request, TaskContext& context);

}  // namespace kvbench
