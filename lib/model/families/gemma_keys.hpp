// What Gemma 2 and Gemma 3 share: tensor names, norms before and after both halves of a block
// (their weights stored less one), scaled embeddings, the attention's own scale, soft caps.
#pragma once

#include "model/families/family_keys.hpp"

namespace kvbench {

inline constexpr TensorPatterns gemma_tensors() {
  TensorPatterns names = kLlamaTensors;
  names.attention_output_norm = "model.layers.{}.post_attention_layernorm.weight";
  names.mlp_norm = "model.layers.{}.pre_feedforward_layernorm.weight";
  names.mlp_output_norm = "model.layers.{}.post_feedforward_layernorm.weight";
  return names;
}

inline constexpr std::array<std::string_view, 7> kGemmaHandled{
    "attn_logit_softcapping",     "final_logit_softcapping", "query_pre_attn_scalar",
    "sliding_window_pattern",     "_sliding_window_pattern", "rope_local_base_freq",
    "use_bidirectional_attention"};

// What the two assume where config.json is silent.
struct GemmaDefaults {
  std::int64_t vocab_size;
  std::int64_t max_positions;
  double attention_cap;  // 0: none
  double logit_cap;      // 0: none
};

// Everything but windows and rotary settings.
void read_gemma_keys(const JsonReader& keys, const GemmaDefaults& defaults, ModelConfig& config);

}  // namespace kvbench
