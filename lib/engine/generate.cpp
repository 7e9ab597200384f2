// Definitions of generate.hpp.
#include "engine/generate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.hpp"

namespace kvbench {

std::int32_t likeliest_id(std::span<const float> logits, std::int64_t token) {
  for (const float logit : logits) {
    if (std::isnan(logit)) data_error("non-finite logits at token {}", token);
  }
  const auto best = std::max_element(logits.begin(), logits.end());
  if (!std::isfinite(*best)) data_error("non-finite logits at token {}", token);
  return static_cast<std::int32_t>(best - logits.begin());
}

Generation generate_greedy(Session& session, const GenerateOptions& options) {
  Generation generation;
  const auto& stops = options.stop_ids;
  std::vector<float> logits(static_cast<std::size_t>(session.vocab_size()));
  for (std::int64_t i = 0; i < options.max_new_tokens; ++i) {
    session.last_logits(logits);
    if (i < options.min_new_tokens) {
      for (const std::int32_t stop : stops) {
        // A tokenizer may name stop tokens that the model has no row for.
        if (stop < 0 || stop >= session.vocab_size()) continue;
        logits[static_cast<std::size_t>(stop)] = -std::numeric_limits<float>::infinity();
      }
    }
    const std::int32_t id = likeliest_id(logits, session.tokens_fed());
    if (std::find(stops.begin(), stops.end(), id) != stops.end()) {
      generation.stopped = true;
      return generation;
    }
    generation.ids.push_back(id);
    if (i + 1 < options.max_new_tokens) session.feed({&id, 1});
  }
  return generation;
}

}  // namespace kvbench
