// How a document is cut into the stretches that are run and scored: the protocols of perplexity.
// Numbers of different protocols are different quantities; every record names its own.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kvbench {

// A run on an empty cache. Token i+1 is scored after ids[0..i], for i+1 >= first_scored.
struct Segment {
  std::vector<std::int32_t> ids;
  std::size_t prompt = 0;  // the first so many are a prompt, which policies may compress at its end
  std::size_t first_scored = 1;     // index in ids of the first token that is scored; at least 1
  std::int64_t first_position = 0;  // of ids[0] in the document; -1 for a prefix before it
};

struct ProtocolOptions {
  std::int64_t window = 0;     // tokens per window, for the protocols that have windows
  std::int64_t stride = 0;     // tokens from one window to the next; 0: window
  std::int64_t prompt = 0;     // continue: tokens of each prompt
  std::int64_t score = 0;      // continue: tokens scored after it
  std::int32_t prefix_id = 0;  // rolling: stands before the first token
  bool force_prefix = false;   // llamacpp: prefix_id overwrites the first id of each chunk
};

struct PplProtocol {
  std::string_view name;
  std::string_view summary;
  bool has_window;  // --window, --stride
  bool has_prompt;  // --prompt, --score
  std::vector<Segment> (*cut)(std::span<const std::int32_t> document,
                              const ProtocolOptions& options);
};

std::span<const PplProtocol> ppl_protocols();
// ConfigError for an unknown name or options that do not go with it.
const PplProtocol& find_ppl_protocol(std::string_view name, const ProtocolOptions& options);

}  // namespace kvbench
