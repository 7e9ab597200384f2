// The two questions that every cache policy answers about places: which position the rotary
// embedding uses, and which stored entries a query may see.
#pragma once

#include <cstdint>

#include "backend/backend.hpp"

namespace kvbench {

// What "position" means to the rotary embedding.
enum class PositionMode : std::uint8_t {
  original,    // the token's place in the text; keys are stored rotated
  cache_index  // the entry's place in the cache; keys are stored un-rotated, turned on reading
};

// Which stored entries a query sees, beyond causality: the first `sinks` of the text, and the
// `recent` ones before it. The default is everything.
struct AttentionPattern {
  std::int64_t sinks = 0;
  std::int64_t recent = kUnlimited;
};

}  // namespace kvbench
