// Reads the rotary embedding's settings from config.json, in the old schema (rope_theta and
// rope_scaling) and the newer one (rope_parameters).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "io/json_reader.hpp"
#include "model/model_config.hpp"

namespace kvbench {

// Where a family's rotary settings stand, and what it assumes where config.json is silent.
struct RopeDefaults {
  double theta = 10000.0;
  std::string_view theta_key = "rope_theta";  // outside of rope_scaling and rope_parameters
  // The share of a head that rotates. Without a key of that name it is all of it, and a
  // "partial_rotary_factor" that says otherwise is refused.
  std::string_view partial_key = {};
  double partial = 1.0;
  // longrope: original_max_position_embeddings when absent; nothing: max_position_embeddings.
  std::optional<std::int64_t> original_max_positions = std::nullopt;
};

// Fills config.rope; head_dim and max_positions must be there already. Pairs are half-split.
// rope_scaling, unless null or empty, decides over rope_parameters; "rope_type" over "type"; a
// theta inside either over the one outside. Contradictions are kept as warnings.
void read_rope(const JsonReader& keys, const RopeDefaults& defaults, ModelConfig& config);
inline void read_rope(const JsonReader& keys, double default_theta, ModelConfig& config) {
  read_rope(keys, RopeDefaults{.theta = default_theta}, config);
}

// Gemma 3 and its like: config.rope for the layers that see everything, config.sliding_rope for
// those that slide. "rope_parameters" may hold one object for each kind of layer.
void read_rope_by_layer_kind(const JsonReader& keys, const RopeDefaults& full,
                             const RopeDefaults& sliding, ModelConfig& config);

}  // namespace kvbench
