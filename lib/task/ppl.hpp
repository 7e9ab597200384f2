// The perplexity task: the same tokens under several policies, one record each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/record.hpp"
#include "task/ppl_protocol.hpp"
#include "task/run_settings.hpp"
#include "task/task.hpp"
#include "task/token_source.hpp"

namespace kvbench {

enum class DocumentMode : std::uint8_t {
  reset,  // an empty cache for each document
  carry   // one cache over all documents, as the StreamingLLM script has it
};

struct PplRequest : RunSettings {
  TokenRequest tokens;
  std::vector<std::string> policies;
  std::string protocol = "stream";
  ProtocolOptions protocol_options;
  DocumentMode documents = DocumentMode::reset;
  std::int64_t streams = 1;  // segments that run side by side; results do not depend on it
  bool strict = false;       // a policy that evicted nothing is an error
};

// See Task. Policy `full` runs first, because others are compared with it.
void check_ppl(const PplRequest& request);
TaskEstimate estimate_ppl(const PplRequest& request, TaskContext& context);
std::vector<RunRecord> run_ppl(const PplRequest& request, TaskContext& context);

}  // namespace kvbench
