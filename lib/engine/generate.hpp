// Greedy decoding from a session: the likeliest token at each step, until a stop token or a limit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/session.hpp"

namespace kvbench {

struct GenerateOptions {
  std::int64_t max_new_tokens = 0;
  // Ids that end a generation; none: it runs to the limit.
  std::span<const std::int32_t> stop_ids = {};
  // No stop token is taken among the first so many.
  std::int64_t min_new_tokens = 0;
};

struct Generation {
  std::vector<std::int32_t> ids;  // a stop token ends it and is not part of it
  bool stopped = false;           // by a stop token
};

// The likeliest id, the lower one of equals. DataError, naming `token`, for a NaN, or where only
// infinities are left. logits: [vocab_size].
std::int32_t likeliest_id(std::span<const float> logits, std::int64_t token);

// Continues after the last token fed. The last id of a generation is not fed.
Generation generate_greedy(Session& session, const GenerateOptions& options);

}  // namespace kvbench
