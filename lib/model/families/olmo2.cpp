// OLMo 2: attention and MLP read the residual stream as it is and their outputs are normed; q and k
// are normed over all heads together.
#include <array>

#include "model/families/family_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"Olmo2ForCausalLM"};

constexpr TensorPatterns tensors() {
  TensorPatterns names = kLlamaTensors;
  names.input_norm = names.mlp_norm = {};
  names.attention_output_norm = "model.layers.{}.post_attention_layernorm.weight";
  names.mlp_output_norm = "model.layers.{}.post_feedforward_layernorm.weight";
  return names;
}

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_shared_keys(keys, {.max_positions = 2048, .norm_eps = 1e-5, .stop_id = 50279}, config);
  refuse_setting(keys, "mlp_bias");
  config.qkv_bias = keys.optional_bool("attention_bias").value_or(false);
  config.o_bias = config.qkv_bias;
  config.input_norms = false;
  config.output_norms = true;
  config.qk_norm = QkNorm::whole;
  read_rope(keys, 10000.0, config);
  check_layer_types(keys, config);
}

}  // namespace

FamilySpec olmo2_family() {
  return {.model_type = "olmo2",
          .summary = "OLMo 2; norms on the outputs and over all of q and k",
          .example = {"OLMo 2 7B", 32, 32, 128},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = tensors(),
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
