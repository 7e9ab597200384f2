// The perplexity task: the same tokens under several policies, one record each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "policy/registry.hpp"
#include "report/record.hpp"
#include "task/ppl_protocol.hpp"
#include "task/run_settings.hpp"
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
  bool strict = false;  // a policy that evicted nothing is an error
  bool quiet = false;   // no progress line
};

// Runs all policies, `full` first because others are compared with it, and hands each record to
// `finished` as soon as it is whole. Returns the records in the order of the request. A failure
// of one policy is an error record; what concerns all of them is thrown.
std::vector<RunRecord> run_ppl(const PplRequest& request,
                               const std::function<void(const RunRecord&)>& finished);

}  // namespace kvbench
