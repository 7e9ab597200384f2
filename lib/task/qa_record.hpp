// From one policy's answers to its record.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "model/model.hpp"
#include "policy/registry.hpp"
#include "report/record.hpp"
#include "task/qa_items.hpp"

namespace kvbench {

struct QaAnswer {
  const QaItem* item = nullptr;
  std::string output;          // as generated
  double score = 0.0;          // 0 to 1
  double kept = 0.0;           // entries per KV head after the prompt, mean over layers and heads
  std::int64_t generated = 0;  // tokens
  bool stopped = false;        // by a stop token
};

// What is measured beside the answers of one policy.
struct QaMeasured {
  std::vector<QaAnswer> answers;
  double load_seconds = 0.0;
  double tokenize_seconds = 0.0;
  double prefill_seconds = 0.0;
  double decode_seconds = 0.0;
  std::int64_t prefill_tokens = 0;
  std::int64_t decode_tokens = 0;  // of hidden questions, and generated
  std::int64_t evicted = 0;
  std::int64_t ties_at_cut = 0;
  bool kivi = false;  // the storage was quantised
  std::int64_t quantised_rows = 0;
  std::int64_t kv_bytes_peak = 0;
};

// What was asked for and on what: everything but the results.
RunRecord describe_qa(const QaRequest& request, const QaInput& input,
                      const ConfiguredPolicy& configured, const Model& model,
                      const Backend& backend);

// What the answers of policy full scored on the same samples.
struct QaBaseline {
  double score = 0.0;             // percent
  std::vector<QaAnswer> answers;  // empty where they come from an earlier run
};

// The mean over datasets of their mean scores, in percent.
double qa_score(const std::vector<QaAnswer>& answers);

// Metrics, timings and details.
void add_qa_metrics(const QaMeasured& measured, const std::optional<QaBaseline>& full,
                    RunRecord& record);

}  // namespace kvbench
