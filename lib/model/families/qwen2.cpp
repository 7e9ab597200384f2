// Qwen2 and Qwen2.5: biases on q, k and v (always, whatever the config says) and none on o.
#include <array>

#include "model/families/family_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"Qwen2ForCausalLM"};

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_shared_keys(keys, {.n_kv_heads = 32, .max_positions = 32768}, config);
  refuse_setting(keys, "mlp_bias");
  config.qkv_bias = true;
  read_upper_sliding_layers(keys, config);
  read_rope(keys, 10000.0, config);
}

}  // namespace

FamilySpec qwen2_family() {
  return {.model_type = "qwen2",
          .summary = "Qwen2 and Qwen2.5; biases on q, k and v",
          .example = {"Qwen2.5 7B", 28, 4, 128},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = kLlamaTensors,
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
