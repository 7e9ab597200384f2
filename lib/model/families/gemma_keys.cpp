// Reads the keys that Gemma 2 and Gemma 3 share.
#include "model/families/gemma_keys.hpp"

#include <cmath>

namespace kvbench {
namespace {

// A null cap is none.
double read_cap(const JsonReader& keys, std::string_view key, double when_absent) {
  if (keys.presence(key) == Presence::null) return 0.0;
  return keys.optional_double(key, 1e-6, 1e9).value_or(when_absent);
}

}  // namespace

void read_gemma_keys(const JsonReader& keys, const GemmaDefaults& defaults, ModelConfig& config) {
  read_shared_keys(keys,
                   {.names = {.activation = "hidden_activation"},
                    .handled = kGemmaHandled,
                    .vocab_size = defaults.vocab_size,
                    .n_heads = 8,
                    .n_kv_heads = 4,
                    .head_dim = 256,
                    .max_positions = defaults.max_positions,
                    .activation = "gelu_pytorch_tanh",
                    .tied = true,
                    .bos_id = 2,
                    .stop_id = 1},
                   config);
  refuse_setting(keys, "use_bidirectional_attention");
  refuse_setting(keys, "mlp_bias");
  config.qkv_bias = keys.optional_bool("attention_bias").value_or(false);
  config.o_bias = config.qkv_bias;
  config.norm_weights_less_one = true;
  config.output_norms = true;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  const double scalar = keys.optional_double("query_pre_attn_scalar", 1e-6, 1e9).value_or(256.0);
  config.attention_scale = 1.0 / std::sqrt(scalar);
  config.attention_logit_cap = read_cap(keys, "attn_logit_softcapping", defaults.attention_cap);
  config.logit_cap = read_cap(keys, "final_logit_softcapping", defaults.logit_cap);
}

}  // namespace kvbench
