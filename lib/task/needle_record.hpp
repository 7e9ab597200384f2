// The record of a needle run: what was asked, each answer, the grid's cells and the totals.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model.hpp"
#include "policy/registry.hpp"
#include "report/record.hpp"
#include "task/needle_plan.hpp"
#include "task/needle_probe.hpp"

namespace kvbench {

// One prompt's result.
struct NeedleAnswer {
  const NeedleItem* item = nullptr;
  ProbeResult probe;
  std::string text;           // the greedy answer
  std::int64_t strict = 0;    // answers found, of item->answers; see answer_match.hpp
  std::int64_t contains = 0;  // the same by the rule of substrings
  std::int64_t leading = 0;   // leading characters right of the first answer

  bool ok() const { return strict == std::ssize(item->answers); }
  bool ok_contains() const { return contains == std::ssize(item->answers); }
};

NeedleAnswer judge_answer(const NeedleItem& item, ProbeResult probe, const Tokenizer& tokenizer);

struct NeedleMeasured {
  std::vector<NeedleAnswer> answers;
  double load_seconds = 0.0;
  double plan_seconds = 0.0;
  double twin_seconds = 0.0;  // of prompts that policies of the run share
  std::int64_t kv_bytes_per_token = 0;
};

// Everything but the results.
RunRecord describe_needle(const NeedleRequest& request, const ConfiguredPolicy& configured,
                          const Model& model, const TokenSource& source, const NeedlePlan& plan,
                          const Backend& backend);

void add_needle_metrics(const NeedleMeasured& measured, RunRecord& record);

}  // namespace kvbench
