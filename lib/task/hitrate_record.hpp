// The record of a hit-rate run.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.hpp"
#include "metric/hit_rate.hpp"
#include "model/model.hpp"
#include "policy/registry.hpp"
#include "report/record.hpp"
#include "task/hitrate.hpp"
#include "task/token_source.hpp"

namespace kvbench {

// What was measured of one policy.
struct HitMeasured {
  HitMeasured(std::int64_t n_layers, std::int64_t n_heads, const HitRateOptions& options)
      : meter(n_layers, n_heads, options) {}

  HitMeter meter;
  std::vector<double> nll;        // [steps]; empty where they were not scored
  std::int64_t entries = 0;       // after the last step of each segment, over layers and KV heads:
  std::int64_t entries_kept = 0;  // those that the full cache holds, and the policy
  // What each question's prompt left of the context: [questions][n_layers * n_kv_heads].
  std::vector<std::vector<std::vector<std::int32_t>>> by_question;
  double seconds = 0.0;  // of the policy alone
};

// What all policies of a run share.
struct TwinMeasured {
  std::vector<double> nll;  // [steps]
  double load_seconds = 0.0;
  double tokenize_seconds = 0.0;
  double prompt_seconds = 0.0;
  double step_seconds = 0.0;  // counting included
};

RunRecord describe_hitrate(const HitRateRequest& request, const ConfiguredPolicy& configured,
                           const Model& model, const TokenSource& source, const Backend& backend);

void add_hitrate_metrics(const std::vector<HitSegment>& segments, const HitMeasured& measured,
                         const TwinMeasured& twin, RunRecord& record);

}  // namespace kvbench
