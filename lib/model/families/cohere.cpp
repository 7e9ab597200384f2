// Command-R and Command-R+: LayerNorm without biases, attention and MLP side by side behind one
// norm, RoPE on pairs of neighbours, scaled logits. Command-R+ norms each head of q and k.
#include <array>

#include "model/families/family_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"CohereForCausalLM"};
constexpr std::array<std::string_view, 2> kHandled{"logit_scale", "use_qk_norm"};

constexpr TensorPatterns tensors() {
  TensorPatterns names = kLlamaTensors;
  names.mlp_norm = {};
  return names;
}

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_shared_keys(keys,
                   {.names = {.norm_eps = "layer_norm_eps"},
                    .handled = kHandled,
                    .max_positions = 8192,
                    .norm_eps = 1e-5,
                    .tied = true,
                    .bos_id = 5,
                    .stop_id = 255001},
                   config);
  refuse_setting(keys, "mlp_bias");
  config.norm = NormKind::layer;
  config.parallel_block = true;
  config.shared_input_norm = true;
  config.qkv_bias = keys.optional_bool("attention_bias").value_or(false);
  config.o_bias = config.qkv_bias;
  if (keys.optional_bool("use_qk_norm").value_or(false)) config.qk_norm = QkNorm::each_head;
  config.logit_scale = keys.optional_double("logit_scale", 1e-9, 1e9).value_or(0.0625);
  read_rope(keys, 500000.0, config);
  config.rope.interleaved = true;
}

}  // namespace

FamilySpec cohere_family() {
  return {.model_type = "cohere",
          .summary = "Command-R and Command-R+; parallel block, scaled logits",
          .example = {"Command-R 35B", 40, 64, 128},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = tensors(),
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
