// Command R7B and Command A: Command-R's block; three of four layers slide and rotate, every fourth
// sees everything and rotates nothing.
#include <array>

#include "model/families/family_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"Cohere2ForCausalLM"};
constexpr std::array<std::string_view, 4> kHandled{
    "logit_scale", "use_parallel_block", "_sliding_window_pattern", "sliding_window_pattern"};

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
  if (!keys.optional_bool("use_parallel_block").value_or(true)) {
    keys.fail("use_parallel_block",
              "is false, expected true: the block of this family is parallel");
  }
  config.norm = NormKind::layer;
  config.parallel_block = true;
  config.shared_input_norm = true;
  config.qkv_bias = keys.optional_bool("attention_bias").value_or(false);
  config.o_bias = config.qkv_bias;
  config.logit_scale = keys.optional_double("logit_scale", 1e-9, 1e9).value_or(0.0625);
  read_sliding_pattern(keys, read_sliding_window(keys, 4096), 4, config);
  for (const auto& window : config.sliding_windows) {
    config.unrotated.push_back(!window.has_value());
  }
  read_rope(keys, 10000.0, config);
  config.rope.interleaved = true;
}

}  // namespace

FamilySpec cohere2_family() {
  return {.model_type = "cohere2",
          .summary = "Command R7B and Command A; local layers with RoPE, global ones without",
          .example = {"Command R7B", 32, 8, 128},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = tensors(),
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
