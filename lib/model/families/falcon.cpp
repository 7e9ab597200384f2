// Falcon: the 7B (one KV head, one norm for attention and MLP), the 40B and 180B (groups of heads,
// a norm for each; Falcon2-11B one again), and the RefinedWeb models (ALiBi, sequential block).
#include <array>
#include <cmath>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "model/families/family_keys.hpp"
#include "model/families/rope_keys.hpp"

namespace kvbench {
namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"FalconForCausalLM"};
constexpr std::array<std::string_view, 5> kHandled{
    "alibi", "multi_query", "parallel_attn", "new_decoder_architecture", "num_ln_in_parallel_attn"};
constexpr std::array<Renaming, 2> kRenamings{
    {{".input_layernorm.", ".ln_attn."}, {".post_attention_layernorm.", ".ln_mlp."}}};

constexpr TensorPatterns kTensors{
    .embedding = "transformer.word_embeddings.weight",
    .final_norm = "transformer.ln_f.weight",
    .lm_head = "lm_head.weight",
    .input_norm = "transformer.h.{}.input_layernorm.weight",
    .mlp_norm = "transformer.h.{}.post_attention_layernorm.weight",
    .qkv = "transformer.h.{}.self_attention.query_key_value.weight",
    .o = "transformer.h.{}.self_attention.dense.weight",
    .up = "transformer.h.{}.mlp.dense_h_to_4h.weight",
    .down = "transformer.h.{}.mlp.dense_4h_to_h.weight",
};

// Without the new decoder, multi_query decides; what num_kv_heads says does not count then.
void read_kv_heads(const JsonReader& keys, bool new_decoder, ModelConfig& config) {
  constexpr std::string_view kKey = "num_kv_heads";
  if (!new_decoder) {
    const bool multi_query = keys.optional_bool("multi_query").value_or(true);
    config.n_kv_heads = multi_query ? 1 : config.n_heads;
    return;
  }
  config.n_kv_heads = keys.optional_int(kKey, 1, config.n_heads).value_or(config.n_heads);
  if (config.n_heads % config.n_kv_heads != 0) {
    keys.fail(kKey, fmt::format("{} attention heads are not a multiple of {} KV heads",
                                config.n_heads, config.n_kv_heads));
  }
}

// The bias stands inside the attention's scale, and its slopes are rounded to bf16. The reference
// implementation's "eager" attention, the one that reference numbers come from, adds the bias twice
// (once with the mask); its "sdpa" attention and the published model code add it once.
void use_alibi(const JsonReader& keys, ModelConfig& config) {
  const bool once = keys.optional_string("attn_implementation").value_or("eager") == "sdpa";
  if (!once) {
    config.warnings.push_back(fmt::format(
        "{}: the ALiBi bias is added twice, as the reference's eager attention does; with "
        "\"attn_implementation\": \"sdpa\" in the file it is added once",
        keys.where()));
  }
  const double times = once ? 1.0 : 2.0;
  config.positions = PositionKind::alibi;
  config.alibi_slopes = alibi_slopes(config.n_heads, 8.0);
  for (float& slope : config.alibi_slopes) {
    slope =
        bf16_to_float(float_to_bf16(slope)) * static_cast<float>(times * config.attention_scale);
  }
}

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_shared_keys(keys,
                   {.names = {.ffn_size = "ffn_hidden_size",
                              .norm_eps = "layer_norm_epsilon",
                              .activation = "activation"},
                    .handled = kHandled,
                    .max_positions = 2048,
                    .norm_eps = 1e-5,
                    .activation = "gelu",
                    .tied = true,
                    .ffn_times_hidden = 4,
                    .bos_id = 11,
                    .stop_id = 11},
                   config);
  const bool new_decoder = keys.optional_bool("new_decoder_architecture").value_or(false);
  const bool parallel = keys.optional_bool("parallel_attn").value_or(true);
  if (new_decoder && !parallel) {
    keys.fail("parallel_attn", "is false, which new_decoder_architecture does not know");
  }
  const auto n_norms = keys.optional_int("num_ln_in_parallel_attn", 1, 2).value_or(2);
  read_kv_heads(keys, new_decoder, config);
  config.norm = NormKind::layer;
  config.norm_bias = true;
  config.gated_mlp = false;
  config.parallel_block = parallel;
  config.shared_input_norm = parallel && !(new_decoder && n_norms == 2);
  config.qkv_bias = keys.optional_bool("bias").value_or(false);
  config.o_bias = config.mlp_bias = config.qkv_bias;
  if (keys.optional_bool("alibi").value_or(false)) {
    use_alibi(keys, config);
  } else {
    read_rope(keys, 10000.0, config);
  }
  check_layer_types(keys, config);
}

}  // namespace

FamilySpec falcon_family() {
  return {.model_type = "falcon",
          .summary = "Falcon 7B, 40B, 180B, 2-11B and RefinedWeb; fused qkv, RoPE or ALiBi",
          .example = {"Falcon 7B", 32, 1, 64},
          .architectures = kArchitectures,
          .read_config = read_config,
          .tensors = kTensors,
          .qkv_layout = QkvLayout::grouped,
          .renamings = kRenamings,
          .harmless_endings = kSavedBuffers};
}

}  // namespace kvbench
