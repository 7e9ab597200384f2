// Phi-3, Phi-3.5 and Phi-4-mini: Llama's arithmetic with fused matrices, a window of its own, part
// of each head unrotated (Phi-4-mini) and longrope scaling (the 128K models).
#include <algorithm>
#include <array>

#include "model/families/family_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"Phi3ForCausalLM"};
constexpr std::array<std::string_view, 1> kHandled{"partial_rotary_factor"};

constexpr TensorPatterns tensors() {
  TensorPatterns names = kLlamaTensors;
  names.q = names.k = names.v = names.gate = names.up = {};
  names.qkv = "model.layers.{}.self_attn.qkv_proj.weight";
  names.gate_up = "model.layers.{}.mlp.gate_up_proj.weight";
  return names;
}

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_shared_keys(
      keys,
      {.handled = kHandled, .max_positions = 4096, .norm_eps = 1e-5, .bos_id = 1, .stop_id = 32000},
      config);
  refuse_setting(keys, "attention_bias");
  refuse_setting(keys, "mlp_bias");
  std::ranges::fill(config.sliding_windows, read_sliding_window(keys, std::nullopt));
  check_layer_types(keys, config);
  read_rope(keys, {.partial_key = "partial_rotary_factor", .original_max_positions = 4096}, config);
}

}  // namespace

FamilySpec phi3_family() {
  return {.model_type = "phi3",
          .summary = "Phi-3, Phi-3.5 and Phi-4-mini; fused matrices, longrope",
          .example = {"Phi-3.5 mini", 32, 32, 96},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = tensors(),
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
