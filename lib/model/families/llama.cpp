// Llama 1 to 3, and the many models that were trained with its architecture (SmolLM, Yi, ...).
#include <array>

#include "core/error.hpp"
#include "model/families/family_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 2> kArchitectures{"LlamaForCausalLM", "LLaMAForCausalLM"};

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_shared_keys(keys, {.max_positions = 2048, .bos_id = 1, .stop_id = 2}, config);
  config.qkv_bias = keys.optional_bool("attention_bias").value_or(false);
  config.o_bias = config.qkv_bias;
  config.mlp_bias = keys.optional_bool("mlp_bias").value_or(false);
  if (read_sliding_window(keys, std::nullopt)) {
    config.warnings.push_back(fmt::format(
        "{}: sliding_window is set, but no layer of a llama model slides; it is ignored",
        keys.where()));
  }
  check_layer_types(keys, config);
  read_rope(keys, 10000.0, config);
}

}  // namespace

FamilySpec llama_family() {
  return {.model_type = "llama",
          .summary = "Llama 1 to 3, LWM, SmolLM2 and others of the same architecture",
          .example = {"Llama 3.1 8B", 32, 8, 128},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = kLlamaTensors,
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
