// Readers of the config.json keys that families share, each with the family's own defaults.
// Absent and null are different things in these files: a key that may be null says so.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "io/json_reader.hpp"
#include "model/family.hpp"
#include "model/model_config.hpp"

namespace kvbench {

// config.json's spellings of the keys that all families have.
struct KeyNames {
  std::string_view hidden_size = "hidden_size";
  std::string_view ffn_size = "intermediate_size";
  std::string_view n_layers = "num_hidden_layers";
  std::string_view n_heads = "num_attention_heads";
  std::string_view n_kv_heads = "num_key_value_heads";
  std::string_view max_positions = "max_position_embeddings";
  std::string_view norm_eps = "rms_norm_eps";
  std::string_view activation = "hidden_act";
};

// What a family assumes where config.json is silent.
struct FamilyDefaults {
  KeyNames names = {};
  // Settings that change the arithmetic and that the family's reader handles itself; all others of
  // that kind are refused.
  std::span<const std::string_view> handled = {};
  // vocab_size and num_attention_heads when absent; nothing: they must be there.
  std::optional<std::int64_t> vocab_size = std::nullopt;
  std::optional<std::int64_t> n_heads = std::nullopt;
  // num_key_value_heads when absent; nothing: as many as query heads.
  std::optional<std::int64_t> n_kv_heads = std::nullopt;
  // null stands for "as many as query heads"; where it may not, it is an error.
  bool n_kv_heads_may_be_null = true;
  // head_dim when absent; nothing: hidden_size / num_attention_heads, for null too.
  std::optional<std::int64_t> head_dim = std::nullopt;
  std::int64_t max_positions = 0;
  double norm_eps = 1e-6;
  std::string_view activation = "silu";
  bool tied = false;  // tie_word_embeddings when absent
  // The MLP's inner width when absent or null, in hidden sizes; 0: it must be there.
  std::int64_t ffn_times_hidden = 0;
  std::optional<std::int32_t> bos_id = std::nullopt;
  std::optional<std::int32_t> stop_id = std::nullopt;
};

// Sizes, norm, activation, tying, dtype and special ids; no layer slides, no bias is set. Refuses
// settings that would change the arithmetic, unless the family handles them.
void read_shared_keys(const JsonReader& keys, const FamilyDefaults& defaults, ModelConfig& config);

// Refuses the key unless it is absent, null, false, empty or equal to `neutral`.
void refuse_setting(const JsonReader& keys, std::string_view key,
                    std::optional<double> neutral = std::nullopt);
// Refuses every setting that is known to change the arithmetic of some model, but those handled.
void refuse_unhandled(const JsonReader& keys, std::span<const std::string_view> handled);

// sliding_window of every layer: absent means `when_absent`, null means none.
std::optional<std::int64_t> read_sliding_window(const JsonReader& keys,
                                                std::optional<std::int64_t> when_absent);
// All layers slide but every n-th one, unless "layer_types" decides; nothing slides without a
// window. n is "sliding_window_pattern", with or without a leading underscore, or the default.
void read_sliding_pattern(const JsonReader& keys, std::optional<std::int64_t> window,
                          std::int64_t default_pattern, ModelConfig& config);
// Qwen's rule: where use_sliding_window is set, the layers from max_window_layers on slide;
// "layer_types", where given, decides instead.
void read_upper_sliding_layers(const JsonReader& keys, ModelConfig& config);
// Refuses a "layer_types" list that disagrees with the windows the config has.
void check_layer_types(const JsonReader& keys, const ModelConfig& config);

// ALiBi slopes of arXiv:2108.12409, section 3, for any number of heads: 2^(-bias_max i / n) for the
// next power of two n, its odd terms first where there are fewer heads.
std::vector<float> alibi_slopes(std::int64_t n_heads, double bias_max);

// "dtype" or, where it is absent, "torch_dtype".
std::optional<DType> read_declared_dtype(const JsonReader& keys);
// eos_token_id as a number, a list, or null (no stop id). Nothing: the key is absent.
std::optional<std::vector<std::int32_t>> read_stop_ids(const JsonReader& keys);

// Tensor names of Llama and of the families that took them over.
inline constexpr TensorPatterns kLlamaTensors{
    .embedding = "model.embed_tokens.weight",
    .final_norm = "model.norm.weight",
    .lm_head = "lm_head.weight",
    .input_norm = "model.layers.{}.input_layernorm.weight",
    .mlp_norm = "model.layers.{}.post_attention_layernorm.weight",
    .q = "model.layers.{}.self_attn.q_proj.weight",
    .k = "model.layers.{}.self_attn.k_proj.weight",
    .v = "model.layers.{}.self_attn.v_proj.weight",
    .o = "model.layers.{}.self_attn.o_proj.weight",
    .q_norm = "model.layers.{}.self_attn.q_norm.weight",
    .k_norm = "model.layers.{}.self_attn.k_norm.weight",
    .gate = "model.layers.{}.mlp.gate_proj.weight",
    .up = "model.layers.{}.mlp.up_proj.weight",
    .down = "model.layers.{}.mlp.down_proj.weight",
};

// Buffers that old checkpoints saved: rotary frequencies and causal masks.
inline constexpr std::array<std::string_view, 3> kSavedBuffers{".rotary_emb.inv_freq",
                                                               ".attention.bias", ".masked_bias"};

}  // namespace kvbench
