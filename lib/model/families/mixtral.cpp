// Mixtral: Mistral's attention and, for each token, two of eight gated MLPs. The router's softmax
// runs over all experts; the weights of those picked are made to sum to 1.
#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "model/families/family_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"MixtralForCausalLM"};
constexpr std::array<std::string_view, 2> kHandled{"num_local_experts", "num_experts_per_tok"};
// Newer files name the block as all others do.
constexpr std::array<Renaming, 1> kRenamings{{{"block_sparse_moe.", "mlp."}}};
constexpr std::int64_t kMaxExperts = 4096;

constexpr TensorPatterns tensors() {
  TensorPatterns names = kLlamaTensors;
  names.gate = names.up = names.down = {};
  names.router = "model.layers.{}.block_sparse_moe.gate.weight";
  names.expert_gate = "model.layers.{}.block_sparse_moe.experts.{}.w1.weight";
  names.expert_up = "model.layers.{}.block_sparse_moe.experts.{}.w3.weight";
  names.expert_down = "model.layers.{}.block_sparse_moe.experts.{}.w2.weight";
  names.experts_gate_up = "model.layers.{}.mlp.experts.gate_up_proj";
  names.experts_down = "model.layers.{}.mlp.experts.down_proj";
  return names;
}

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_shared_keys(keys,
                   {.handled = kHandled,
                    .n_kv_heads = 8,
                    .max_positions = 131072,
                    .norm_eps = 1e-5,
                    .bos_id = 1,
                    .stop_id = 2},
                   config);
  refuse_setting(keys, "attention_bias");
  refuse_setting(keys, "mlp_bias");
  config.n_experts = keys.optional_int("num_local_experts", 1, kMaxExperts).value_or(8);
  config.n_active_experts = keys.optional_int("num_experts_per_tok", 1, kMaxExperts).value_or(2);
  if (config.n_active_experts > config.n_experts) {
    keys.fail("num_experts_per_tok",
              fmt::format("is {} of {} experts", config.n_active_experts, config.n_experts));
  }
  std::ranges::fill(config.sliding_windows, read_sliding_window(keys, std::nullopt));
  check_layer_types(keys, config);
  read_rope(keys, 1e6, config);
}

}  // namespace

FamilySpec mixtral_family() {
  return {.model_type = "mixtral",
          .summary = "Mixtral 8x7B and 8x22B; a router and experts",
          .example = {"Mixtral 8x7B", 32, 8, 128},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = tensors(),
          .renamings = kRenamings,
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
