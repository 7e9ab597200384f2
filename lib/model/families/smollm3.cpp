// SmolLM3: Llama's arithmetic in which every fourth layer rotates nothing (NoPE).
#include <array>

#include "core/error.hpp"
#include "model/families/family_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"SmolLM3ForCausalLM"};
constexpr std::array<std::string_view, 2> kHandled{"no_rope_layers", "no_rope_layer_interval"};

// "no_rope_layers" holds 1 for a layer that rotates, 0 for one that does not.
void read_unrotated(const JsonReader& keys, ModelConfig& config) {
  constexpr std::string_view kKey = "no_rope_layers";
  const auto interval = keys.optional_int("no_rope_layer_interval", 1, 10'000).value_or(4);
  const auto listed = keys.optional_ints(kKey, 0, 1);
  if (listed && listed->size() != static_cast<std::size_t>(config.n_layers)) {
    keys.fail(kKey, fmt::format("expected {} numbers, one per layer", config.n_layers));
  }
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    config.unrotated.push_back(listed ? (*listed)[static_cast<std::size_t>(layer)] == 0
                                      : (layer + 1) % interval == 0);
  }
}

// Where use_sliding_window is set, the layers that do not rotate slide, unless "layer_types"
// decides.
void read_windows(const JsonReader& keys, ModelConfig& config) {
  if (!keys.optional_bool("use_sliding_window").value_or(false)) {
    return check_layer_types(keys, config);
  }
  const auto window = read_sliding_window(keys, std::nullopt);
  read_sliding_pattern(keys, window, 1, config);
  if (keys.presence("layer_types") == Presence::value) return;
  for (std::size_t layer = 0; layer < config.sliding_windows.size(); ++layer) {
    if (config.unrotated[layer]) config.sliding_windows[layer] = window;
  }
}

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_shared_keys(keys,
                   {.handled = kHandled,
                    .n_kv_heads = 4,
                    .max_positions = 32768,
                    .tied = true,
                    .bos_id = 128000,
                    .stop_id = 128001},
                   config);
  config.qkv_bias = keys.optional_bool("attention_bias").value_or(false);
  config.o_bias = config.qkv_bias;
  config.mlp_bias = keys.optional_bool("mlp_bias").value_or(false);
  read_unrotated(keys, config);
  read_windows(keys, config);
  read_rope(keys, 2e6, config);
}

}  // namespace

FamilySpec smollm3_family() {
  return {.model_type = "smollm3",
          .summary = "SmolLM3; every fourth layer without RoPE",
          .example = {"SmolLM3 3B", 36, 4, 128},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = kLlamaTensors,
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
