// The attention task: where a model's attention goes with a full cache, per layer and query head,
// and how that changes when the first tokens are line breaks. Rows are looked at block by block.
#pragma once

#include <cstdint>
#include <vector>

#include "metric/attention_profile.hpp"
#include "report/record.hpp"
#include "task/run_settings.hpp"
#include "task/task.hpp"
#include "task/token_source.hpp"

namespace kvbench {

struct AttentionRequest : RunSettings {
  TokenRequest tokens;
  std::int64_t offset = 0;         // first token of the text that is used
  std::int64_t prompt = 0;         // tokens
  std::int64_t replace_first = 0;  // above 0: a second pass, these first tokens replaced
  std::int64_t replace_id = -1;    // by this one; -1: the tokenizer's line break
  ProfileOptions profile;
};

// See Task.
void check_attention(const AttentionRequest& request);
TaskEstimate estimate_attention(const AttentionRequest& request);
std::vector<RunRecord> run_attention(const AttentionRequest& request, TaskContext& context);

}  // namespace kvbench
