// What Command-R and its successors share: LayerNorm without biases, attention and MLP side by side
// behind one norm, scaled logits, a tied lm_head.
#pragma once

#include "model/families/family_keys.hpp"

namespace kvbench {

inline constexpr TensorPatterns cohere_tensors() {
  TensorPatterns names = kLlamaTensors;
  names.mlp_norm = {};
  return names;
}

// Everything but norms on heads, windows and rotary settings. `handled`: see FamilyDefaults.
void read_cohere_keys(const JsonReader& keys, std::span<const std::string_view> handled,
                      ModelConfig& config);

}  // namespace kvbench
