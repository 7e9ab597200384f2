// Gemma 1: Llama's blocks with scaled embeddings, norms whose weights are stored less one, and
// heads of a size of their own.
#include <array>
#include <cmath>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "model/families/family_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"GemmaForCausalLM"};

// Published files name the exact GELU under an older key, which the models were not trained with:
// without "hidden_activation" it is the one by tanh. Any other name there is another model.
void check_legacy_activation(const JsonReader& keys, ModelConfig& config) {
  const auto legacy = keys.optional_string("hidden_act");
  if (!legacy || *legacy == "gelu_pytorch_tanh") return;
  if (keys.presence("hidden_activation") == Presence::value) return;
  if (*legacy != "gelu") {
    keys.fail("hidden_act",
              fmt::format("\"{}\" is not supported for this family; hidden_activation "
                          "names its activation",
                          printable(*legacy)));
  }
  config.warnings.push_back(
      fmt::format("{}: hidden_act is gelu; Gemma's activation is gelu_pytorch_tanh, which is used",
                  keys.where()));
}

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_shared_keys(keys,
                   {.names = {.activation = "hidden_activation"},
                    .n_kv_heads = 16,
                    .head_dim = 256,
                    .max_positions = 8192,
                    .activation = "gelu_pytorch_tanh",
                    .tied = true,
                    .bos_id = 2,
                    .stop_id = 1},
                   config);
  refuse_setting(keys, "mlp_bias");
  check_legacy_activation(keys, config);
  config.qkv_bias = keys.optional_bool("attention_bias").value_or(false);
  config.o_bias = config.qkv_bias;
  config.norm_weights_less_one = true;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  check_layer_types(keys, config);
  read_rope(keys, 10000.0, config);
}

}  // namespace

FamilySpec gemma_family() {
  return {.model_type = "gemma",
          .summary = "Gemma 1; scaled embeddings, heads of 256",
          .example = {"Gemma 7B", 28, 16, 256},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = kLlamaTensors,
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
