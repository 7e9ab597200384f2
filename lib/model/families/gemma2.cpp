// Gemma 2: every other layer slides; attention scores and logits are soft-capped.
#include <array>

#include "model/families/gemma_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"Gemma2ForCausalLM"};

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_gemma_keys(keys, {256000, 8192, 50.0, 30.0}, config);
  refuse_setting(keys, "rope_local_base_freq");
  read_sliding_pattern(keys, read_sliding_window(keys, 4096), 2, config);
  read_rope(keys, 10000.0, config);
}

}  // namespace

FamilySpec gemma2_family() {
  return {.model_type = "gemma2",
          .summary = "Gemma 2; soft caps, every other layer local",
          .example = {"Gemma 2 9B", 42, 8, 256},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = gemma_tensors(),
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
