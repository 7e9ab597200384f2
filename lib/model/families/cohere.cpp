// Command-R and Command-R+: LayerNorm without biases, attention and MLP side by side behind one
// norm, RoPE on pairs of neighbours, scaled logits. Command-R+ norms each head of q and k.
#include <array>

#include "model/families/cohere_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"CohereForCausalLM"};
constexpr std::array<std::string_view, 2> kHandled{"logit_scale", "use_qk_norm"};

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_cohere_keys(keys, kHandled, config);
  if (keys.optional_bool("use_qk_norm").value_or(false)) config.qk_norm = QkNorm::each_head;
  read_rope(keys, 500000.0, config);
  config.rope.interleaved = true;
  check_layer_types(keys, config);
}

}  // namespace

FamilySpec cohere_family() {
  return {.model_type = "cohere",
          .summary = "Command-R and Command-R+; parallel block, scaled logits",
          .example = {"Command-R 35B", 40, 64, 128},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = cohere_tensors(),
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
