// The perplexity task: the same tokens under several policies, one record each.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cache/kivi_options.hpp"
#include "core/dtype.hpp"
#include "policy/registry.hpp"
#include "report/record.hpp"
#include "task/ppl_protocol.hpp"
#include "task/token_source.hpp"

namespace kvbench {

enum class DocumentMode : std::uint8_t {
  reset,  // an empty cache for each document
  carry   // one cache over all documents, as the StreamingLLM script has it
};

struct PplRequest {
  std::string model;  // checkpoint directory
  TokenRequest tokens;
  std::vector<std::string> policies;
  std::string protocol = "stream";
  ProtocolOptions protocol_options;
  DocumentMode documents = DocumentMode::reset;
  std::int64_t chunk = 512;
  DType dtype = DType::f32;     // of the matrix products
  DType kv_dtype = DType::f32;  // of stored keys and values
  std::optional<KiviOptions> kivi = {};
  bool softmax_off_by_one = false;  // see SessionOptions
  std::string backend = "auto";
  int threads = 1;
  std::uint64_t seed = 0;
  bool strict = false;  // a policy that evicted nothing is an error
  bool quiet = false;   // no progress line
};

// Runs all policies, `full` first because others are compared with it, and hands each record to
// `finished` as soon as it is whole. Returns the records in the order of the request. A failure
// of one policy is an error record; what concerns all of them is thrown.
std::vector<RunRecord> run_ppl(const PplRequest& request,
                               const std::function<void(const RunRecord&)>& finished);

}  // namespace kvbench
