// One token list under one policy, with everything that can be seen of it: losses, logits, what
// was generated and which entries stayed. How a policy is debugged, and how tests reach in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "task/run_settings.hpp"

namespace kvbench {

struct TraceRequest : RunSettings {
  std::string policy = "full";
  std::vector<std::int32_t> ids;     // the prompt
  std::vector<std::int32_t> decode;  // forced tokens after it, fed one by one
  std::int64_t greedy = 0;           // tokens to generate after those
  bool ignore_stop_ids = false;      // generate on past the model's own stop tokens
};

// Of every head: [layer][kv_head], places in the sequence, ascending; learned sinks come first.
using KeptPlaces = std::vector<std::vector<std::vector<std::int32_t>>>;

struct Trace {
  std::string policy;
  std::vector<std::int32_t> ids;        // prompt and forced tokens
  std::vector<double> nll;              // [ids - 1], nat: nll[i] of ids[i + 1]
  std::vector<float> last_logits;       // [vocab] after the last of ids
  std::vector<std::int32_t> generated;  // a stop token ends it and is not part of it
  std::string finish;                   // "length" or "stop"; empty without generation
  KeptPlaces kept_after_prompt;
  KeptPlaces kept;                 // at the end
  std::int64_t kv_bytes_live = 0;  // at the end
  std::int64_t kv_bytes_allocated = 0;
  std::int64_t kv_bytes_peak = 0;
  std::int64_t evicted = 0;         // entries, over layers and KV heads
  std::int64_t ties_at_cut = 0;     // of those, went with a score equal to that of one that stayed
  std::int64_t quantised_rows = 0;  // likewise, keys and values both counted
  std::vector<std::string> warnings;
};

// ConfigError or DataError as in the other tasks; DataError for logits that are not finite.
Trace run_trace(const TraceRequest& request);

}  // namespace kvbench
