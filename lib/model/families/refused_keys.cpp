// Settings of config.json that change the arithmetic, and their refusal by name where a family does
// not handle them. Whatever else a file holds is left alone.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.hpp"
#include "model/families/family_keys.hpp"

namespace kvbench {
namespace {

// What, inside a key's name, marks a setting that changes the arithmetic in some model or other.
// `neutral` numbers leave it as it is; false, null and empty values always do.
struct Marker {
  std::string_view part;
  std::optional<double> neutral;
};
constexpr std::array kMarkers{
    Marker{"activation_sparsity", {}},
    Marker{"alibi", {}},
    Marker{"altup", {}},
    Marker{"attention_chunk_size", {}},
    Marker{"attn_output_gate", {}},
    Marker{"attn_type", {}},
    Marker{"bidirectional", {}},
    Marker{"clip_qkv", {}},
    Marker{"compression_config", {}},
    Marker{"expert", 0.0},
    Marker{"gated_attention", {}},
    Marker{"inverse_layer_idx", {}},
    Marker{"key_norm", {}},
    Marker{"kv_shared_layers", 0.0},
    Marker{"laurel", {}},
    Marker{"layernorm_1p", {}},
    Marker{"linear_attn", {}},
    Marker{"linear_key_head_dim", {}},
    Marker{"local_base_freq", {}},
    Marker{"logit_scale", 1.0},
    Marker{"logits_scale", 1.0},
    Marker{"logits_scaling", 1.0},
    Marker{"logn_attn", {}},
    Marker{"lora_rank", 0.0},
    Marker{"mamba", {}},
    Marker{"moe", 0.0},
    Marker{"mrope", {}},
    Marker{"multi_query", {}},
    Marker{"multiplier", 1.0},
    Marker{"mup", {}},
    Marker{"new_decoder_architecture", {}},
    Marker{"no_rope", {}},
    Marker{"nope_", {}},
    Marker{"num_ln_in_parallel_attn", {}},
    Marker{"parallel_attn", {}},
    Marker{"parallel_block", {}},
    Marker{"parallel_residual", {}},
    Marker{"partial_rotary", 1.0},
    Marker{"per_layer_input", 0.0},
    Marker{"post_layernorm", {}},
    Marker{"qk_layernorm", {}},
    Marker{"qk_ln", {}},
    Marker{"qk_norm", {}},
    Marker{"quantization_config", {}},
    Marker{"query_pre_attn_scalar", {}},
    Marker{"residual_scale", 1.0},
    Marker{"rope_head_dim", {}},
    Marker{"rope_interleaved", {}},
    Marker{"rotary_pct", 1.0},
    Marker{"scale_depth", {}},
    Marker{"scale_emb", 1.0},
    Marker{"sink", {}},
    Marker{"sliding_window_pattern", {}},
    Marker{"soft_cap", {}},
    Marker{"softcap", {}},
    Marker{"softmax_scale", {}},
    Marker{"temperature_tuning", 0.0},
    Marker{"v_head_dim", {}},
    Marker{"value_norm", {}},
};

}  // namespace

void refuse_setting(const JsonReader& keys, std::string_view key, std::optional<double> neutral) {
  const nlohmann::json* value = keys.find(key);
  if (value == nullptr || value->is_null()) return;
  if (value->is_boolean() && !value->get<bool>()) return;
  if (value->is_structured() && value->empty()) return;
  if (value->is_number() && neutral && value->get<double>() == *neutral) return;
  keys.fail(key,
            "is set, which changes the model's arithmetic in a way kvbench does not implement "
            "for this family");
}

void refuse_unhandled(const JsonReader& keys, std::span<const std::string_view> handled) {
  for (const std::string& name : keys.names()) {
    if (std::ranges::find(handled, name) != handled.end()) continue;
    for (const Marker& marker : kMarkers) {
      if (name.find(marker.part) != std::string::npos) refuse_setting(keys, name, marker.neutral);
    }
  }
}

}  // namespace kvbench
