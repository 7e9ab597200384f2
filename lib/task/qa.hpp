// The question task: long contexts with reference answers under several policies, greedy answers,
// the benchmark's scores. One record per policy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/record.hpp"
#include "task/needle_frame.hpp"
#include "task/run_settings.hpp"
#include "task/task.hpp"
#include "text/tokenizer.hpp"

namespace kvbench {

struct QaRequest : RunSettings {
  std::string data;     // .jsonl file, or a folder of them
  std::string prompts;  // file of prompts; empty: configs/qa_prompts.json
  std::vector<std::string> policies;
  std::vector<std::string> datasets;  // those to run; empty: all of the data
  std::int64_t samples = 0;           // the first so many of each dataset; 0: all
  std::int64_t max_length = 0;        // tokens of a prompt; longer ones lose their middle; 0: any
  bool question_hidden = false;       // from the policy: the context is compressed without it
  std::string bos = "auto";           // "none", "auto" (what the tokenizer adds), or an id
  ChatUse chat = ChatUse::automatic;  // for the datasets whose prompts are meant for a chat
  SpecialTokens specials = SpecialTokens::parse;
  bool strict = false;  // a policy that evicted nothing is an error
};

// See Task. Policy `full` runs first, because others are compared with it.
void check_qa(const QaRequest& request);
TaskEstimate estimate_qa(const QaRequest& request);
std::vector<RunRecord> run_qa(const QaRequest& request, TaskContext& context);

}  // namespace kvbench
