// Command R7B and Command A: Command-R's block; three of four layers slide and rotate, every fourth
// sees everything and rotates nothing.
#include <array>

#include "model/families/cohere_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"Cohere2ForCausalLM"};
constexpr std::array<std::string_view, 4> kHandled{
    "logit_scale", "use_parallel_block", "_sliding_window_pattern", "sliding_window_pattern"};

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_cohere_keys(keys, kHandled, config);
  if (!keys.optional_bool("use_parallel_block").value_or(true)) {
    keys.fail("use_parallel_block",
              "is false, expected true: the block of this family is parallel");
  }
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
          .tensors = cohere_tensors(),
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
