// Reads the rotary embedding's settings from config.json, in the old schema (rope_theta and
// rope_scaling) and the newer one (rope_parameters).
#pragma once

#include "io/json_reader.hpp"
#include "model/model_config.hpp"

namespace kvbench {

// Fills config.rope; head_dim and max_positions must be there already. All of the head rotates, in
// half-split pairs.
// rope_scaling, unless null or empty, decides over rope_parameters; "rope_type" over "type"; a
// theta inside either over the one outside. Contradictions are kept as warnings.
void read_rope(const JsonReader& keys, double default_theta, ModelConfig& config);

}  // namespace kvbench
