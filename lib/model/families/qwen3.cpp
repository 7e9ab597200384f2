// Qwen3 (dense): RMSNorm over each head of q and k; head_dim is 128 unless given, whatever
// hidden_size / heads may be.
#include <array>

#include "model/families/family_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"Qwen3ForCausalLM"};

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_shared_keys(keys, {.n_kv_heads = 32, .head_dim = 128, .max_positions = 32768}, config);
  refuse_setting(keys, "mlp_bias");
  config.qkv_bias = keys.optional_bool("attention_bias").value_or(false);
  config.o_bias = config.qkv_bias;
  config.qk_norm = QkNorm::head;
  read_upper_sliding_layers(keys, config);
  read_rope(keys, 10000.0, config);
}

}  // namespace

FamilySpec qwen3_family() {
  return {.model_type = "qwen3",
          .summary = "Qwen3, dense; RMSNorm on the heads of q and k",
          .example = {"Qwen3 8B", 36, 8, 128},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = kLlamaTensors,
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
