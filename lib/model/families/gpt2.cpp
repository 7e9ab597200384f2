// GPT-2: learned positions, matrices stored [in, out], q, k and v in one of them. Checkpoints of
// the bare model lack the "transformer." of the names.
#include <array>

#include "core/error.hpp"
#include "model/families/family_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"GPT2LMHeadModel"};
constexpr std::array<Renaming, 1> kRenamings{{{"transformer.", ""}}};
constexpr std::array<std::string_view, 2> kMasks{".attn.bias", ".attn.masked_bias"};

constexpr TensorPatterns kTensors{
    .embedding = "transformer.wte.weight",
    .positions = "transformer.wpe.weight",
    .final_norm = "transformer.ln_f.weight",
    .lm_head = "lm_head.weight",
    .input_norm = "transformer.h.{}.ln_1.weight",
    .mlp_norm = "transformer.h.{}.ln_2.weight",
    .qkv = "transformer.h.{}.attn.c_attn.weight",
    .o = "transformer.h.{}.attn.c_proj.weight",
    .up = "transformer.h.{}.mlp.c_fc.weight",
    .down = "transformer.h.{}.mlp.c_proj.weight",
};

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_shared_keys(keys,
                   {.names = {.hidden_size = "n_embd",
                              .ffn_size = "n_inner",
                              .n_layers = "n_layer",
                              .n_heads = "n_head",
                              .max_positions = "n_positions",
                              .norm_eps = "layer_norm_epsilon",
                              .activation = "activation_function"},
                    .max_positions = 1024,
                    .norm_eps = 1e-5,
                    .activation = "gelu_new",
                    .tied = true,
                    .ffn_times_hidden = 4,
                    .bos_id = 50256,
                    .stop_id = 50256},
                   config);
  refuse_setting(keys, "add_cross_attention");
  if (!keys.optional_bool("scale_attn_weights").value_or(true)) config.attention_scale = 1.0;
  config.positions = PositionKind::table;
  config.norm = NormKind::layer;
  config.norm_bias = true;
  config.gated_mlp = false;
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  check_layer_types(keys, config);
}

}  // namespace

FamilySpec gpt2_family() {
  return {.model_type = "gpt2",
          .summary = "GPT-2; learned positions, as many as the model was trained with",
          .example = {"GPT-2 124M", 12, 12, 64},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = kTensors,
          .transposed = true,
          .renamings = kRenamings,
          .harmless_endings = kMasks};
}

}  // namespace kvbench
