// From one policy's perplexity run to its record.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/backend.hpp"
#include "metric/perplexity.hpp"
#include "model/model.hpp"
#include "policy/registry.hpp"
#include "report/record.hpp"
#include "task/ppl.hpp"
#include "task/ppl_protocol.hpp"
#include "task/token_source.hpp"

namespace kvbench {

// What is measured beside the losses of one policy.
struct PplMeasured {
  double load_seconds = 0.0;
  double tokenize_seconds = 0.0;
  std::int64_t prompts = 0;
  std::int64_t prefill_tokens = 0;
  double prefill_seconds = 0.0;         // of prompts, as if each had been run for this policy alone
  double shared_prefill_seconds = 0.0;  // of these, what served other policies too
  double seconds = 0.0;                 // of everything else
  std::int64_t tokens_fed = 0;
  std::int64_t segments = 0;
  std::int64_t passes = 0;  // forward passes, those of prompts apart
  std::int64_t turns = 0;   // streams that had a part in them
  std::int64_t evicted = 0;
  std::int64_t ties_at_cut = 0;  // entries that went with a score equal to that of one that stayed
  bool kivi = false;             // the storage was quantised
  std::int64_t quantised_rows = 0;                 // then: keys and values
  std::vector<std::vector<std::int64_t>> kv_rows;  // [layer][kv_head], at the end of a segment
  std::vector<double> kept;        // of each segment: entries per layer and KV head, see kept_mean
  std::int64_t kv_bytes_live = 0;  // of one stream, at the end of the last segment
  std::int64_t kv_bytes_allocated = 0;  // likewise
  std::int64_t kv_bytes_full = 0;       // of a full cache at that point
  std::int64_t kv_bytes_peak = 0;
  std::int64_t kv_bytes_peak_allocated = 0;
};

// What was asked for and on what: everything but the results.
RunRecord describe_ppl(const PplRequest& request, const PplProtocol& protocol,
                       const ConfiguredPolicy& configured, const Model& model,
                       const TokenSource& source, const Backend& backend);

// Metrics, timings and details. `full_ppl` is that of policy full on the same tokens, if it ran.
void add_ppl_metrics(const PerplexityResult& result, const PplMeasured& measured,
                     const PolicyTraits& traits, std::optional<double> full_ppl, RunRecord& record);

}  // namespace kvbench
