// Gemma 3, text: norms on the heads of q and k; five of six layers slide, with a rotary base of
// their own.
#include <array>

#include "model/families/gemma_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"Gemma3ForCausalLM"};

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_gemma_keys(keys, {262208, 131072, 0.0, 0.0}, config);
  config.qk_norm = QkNorm::head;
  read_sliding_pattern(keys, read_sliding_window(keys, 4096), 6, config);
  read_rope_by_layer_kind(keys, {.theta = 1e6},
                          {.theta = 10000.0, .theta_key = "rope_local_base_freq"}, config);
}

}  // namespace

FamilySpec gemma3_text_family() {
  return {.model_type = "gemma3_text",
          .summary = "Gemma 3, text; local layers with a rotary base of their own",
          .example = {"Gemma 3 1B", 26, 1, 256},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = gemma_tensors(),
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
