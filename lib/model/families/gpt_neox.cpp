// GPT-NeoX and Pythia: a quarter of each head rotates, q, k and v of each head lie together, and
// attention and MLP both read the residual stream unless they are told to take turns.
#include <array>

#include "model/families/family_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"GPTNeoXForCausalLM"};
constexpr std::array<std::string_view, 3> kHandled{"use_parallel_residual", "rotary_pct",
                                                   "partial_rotary_factor"};
constexpr std::array<Renaming, 1> kRenamings{{{"embed_out.", "lm_head."}}};

constexpr TensorPatterns kTensors{
    .embedding = "gpt_neox.embed_in.weight",
    .final_norm = "gpt_neox.final_layer_norm.weight",
    .lm_head = "embed_out.weight",
    .input_norm = "gpt_neox.layers.{}.input_layernorm.weight",
    .mlp_norm = "gpt_neox.layers.{}.post_attention_layernorm.weight",
    .qkv = "gpt_neox.layers.{}.attention.query_key_value.weight",
    .o = "gpt_neox.layers.{}.attention.dense.weight",
    .up = "gpt_neox.layers.{}.mlp.dense_h_to_4h.weight",
    .down = "gpt_neox.layers.{}.mlp.dense_4h_to_h.weight",
};

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_shared_keys(keys,
                   {.names = {.norm_eps = "layer_norm_eps"},
                    .handled = kHandled,
                    .max_positions = 2048,
                    .norm_eps = 1e-5,
                    .activation = "gelu",
                    .bos_id = 0,
                    .stop_id = 2},
                   config);
  config.norm = NormKind::layer;
  config.norm_bias = true;
  config.gated_mlp = false;
  config.parallel_block = keys.optional_bool("use_parallel_residual").value_or(true);
  config.qkv_bias = keys.optional_bool("attention_bias").value_or(true);
  config.o_bias = config.qkv_bias;
  config.mlp_bias = true;
  read_rope(keys, {.theta_key = "rotary_emb_base", .partial_key = "rotary_pct", .partial = 0.25},
            config);
  check_layer_types(keys, config);
}

}  // namespace

FamilySpec gpt_neox_family() {
  return {.model_type = "gpt_neox",
          .summary = "GPT-NeoX and Pythia; partial rotary, parallel residual",
          .example = {"Pythia 6.9B", 32, 32, 128},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = kTensors,
          .qkv_layout = QkvLayout::grouped,
          .renamings = kRenamings,
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
