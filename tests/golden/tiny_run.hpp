// Runs of the tiny checkpoints of this folder, small enough for any machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "task/ppl.hpp"
#include "task/trace.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench::test {

using Ids = std::vector<std::int32_t>;

// Prompts, forced tokens and reference numbers of eviction/expected.json.
inline const nlohmann::json& eviction_reference() {
  static const nlohmann::json document = read_golden("eviction/expected.json");
  return document;
}

inline Ids ids_of(const char* key) {
  return eviction_reference()[key].get<Ids>();
}

// "llama_1layer" is the one-layer checkpoint, whose logits follow from attention alone.
inline std::filesystem::path checkpoint(const std::string& name) {
  return name == "llama_1layer" ? golden_directory() / "eviction" / name : tiny_model(name);
}

inline TraceRequest trace_request(const std::string& model, const std::string& policy,
                                  const Ids& ids) {
  TraceRequest request;
  request.model = checkpoint(model).string();
  request.policy = policy;
  request.ids = ids;
  return request;
}

// Of `expected` and the values that stand first in `found`.
template <class Values>
double largest_difference(const Values& found, const std::vector<double>& expected) {
  double largest = found.size() < expected.size() ? 1e300 : 0.0;
  for (std::size_t i = 0; i < expected.size() && i < found.size(); ++i) {
    // Written so that a NaN counts as different.
    const double difference = std::abs(static_cast<double>(found[i]) - expected[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

}  // namespace kvbench::test
