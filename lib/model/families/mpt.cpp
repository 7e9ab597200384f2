// MPT: ALiBi, no biases anywhere, optionally clipped queries, keys and values.
#include <array>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "model/families/family_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 2> kArchitectures{"MptForCausalLM", "MPTForCausalLM"};
constexpr std::array<std::string_view, 5> kHandledAttention{"alibi", "alibi_bias_max", "attn_type",
                                                            "softmax_scale", "clip_qkv"};

constexpr TensorPatterns kTensors{
    .embedding = "transformer.wte.weight",
    .final_norm = "transformer.norm_f.weight",
    .lm_head = "lm_head.weight",
    .input_norm = "transformer.blocks.{}.norm_1.weight",
    .mlp_norm = "transformer.blocks.{}.norm_2.weight",
    .qkv = "transformer.blocks.{}.attn.Wqkv.weight",
    .o = "transformer.blocks.{}.attn.out_proj.weight",
    .up = "transformer.blocks.{}.ffn.up_proj.weight",
    .down = "transformer.blocks.{}.ffn.down_proj.weight",
};

constexpr double kExpansionRatio = 4.0;
constexpr double kAlibiBiasMax = 8.0;

// Settings that the reference implementation does not look at: it has the usual value built in.
void warn_ignored(const JsonReader& keys, std::string_view key, double used, ModelConfig& config) {
  const double found = keys.optional_double(key, 0.0, 1e9).value_or(used);
  if (found == used) return;
  config.warnings.push_back(
      fmt::format("{}: {} is {}; it is ignored, and {} is used as in every mpt "
                  "model",
                  keys.where(), key, found, used));
}

void read_attention(const JsonReader& keys, ModelConfig& config) {
  refuse_unhandled(keys, kHandledAttention);
  refuse_setting(keys, "prefix_lm");
  if (keys.optional_string("attn_type").value_or("multihead_attention") != "multihead_attention") {
    keys.fail("attn_type", "expected \"multihead_attention\"");
  }
  if (!keys.optional_bool("alibi").value_or(true)) {
    keys.fail("alibi", "is false, expected true: learned positions of this family are not known");
  }
  config.attention_scale =
      keys.optional_double("softmax_scale", 1e-9, 1e9).value_or(config.attention_scale);
  config.qkv_clip = keys.optional_double("clip_qkv", 0.0, 1e9).value_or(0.0);
  warn_ignored(keys, "alibi_bias_max", kAlibiBiasMax, config);
  config.positions = PositionKind::alibi;
  config.alibi_slopes = alibi_slopes(config.n_heads, kAlibiBiasMax);
}

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_shared_keys(keys,
                   {.names = {.hidden_size = "d_model",
                              .ffn_size = "ffn_hidden_size",
                              .n_layers = "n_layers",
                              .n_heads = "n_heads",
                              .max_positions = "max_seq_len",
                              .norm_eps = "layer_norm_epsilon"},
                    .max_positions = 2048,
                    .norm_eps = 1e-5,
                    .activation = "gelu",
                    .tied = true,
                    .ffn_times_hidden = static_cast<std::int64_t>(kExpansionRatio)},
                   config);
  if (!keys.optional_bool("no_bias").value_or(true)) {
    keys.fail("no_bias", "is false, expected true: this family has no biases");
  }
  refuse_setting(keys, "embedding_fraction", 1.0);
  warn_ignored(keys, "expansion_ratio", kExpansionRatio, config);
  config.norm = NormKind::layer;
  config.gated_mlp = false;
  if (const auto attention = keys.optional_object("attn_config")) {
    read_attention(*attention, config);
  } else {
    const nlohmann::json nothing = nlohmann::json::object();
    read_attention(JsonReader(nothing, keys.where(), JsonErrors::data), config);
  }
  check_layer_types(keys, config);
}

}  // namespace

FamilySpec mpt_family() {
  return {.model_type = "mpt",
          .summary = "MPT 7B and 30B; ALiBi",
          .example = {"MPT 7B", 32, 32, 128},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = kTensors,
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
