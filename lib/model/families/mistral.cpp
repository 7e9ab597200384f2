// Mistral 7B and Nemo: Llama's arithmetic, 8 KV heads and a window of 4096 unless told otherwise.
#include <algorithm>
#include <array>

#include "model/families/family_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"MistralForCausalLM"};

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_shared_keys(keys,
                   {.n_kv_heads = 8,
                    .n_kv_heads_may_be_null = false,
                    .max_positions = 131072,
                    .bos_id = 1,
                    .stop_id = 2},
                   config);
  refuse_setting(keys, "attention_bias");
  refuse_setting(keys, "mlp_bias");
  // An absent window is 4096, a null one is none.
  std::ranges::fill(config.sliding_windows, read_sliding_window(keys, 4096));
  check_layer_types(keys, config);
  read_rope(keys, 10000.0, config);
}

}  // namespace

FamilySpec mistral_family() {
  return {.model_type = "mistral",
          .summary = "Mistral 7B, Nemo and relatives; sliding window unless it is null",
          .example = {"Mistral 7B", 32, 8, 128},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = kLlamaTensors,
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
