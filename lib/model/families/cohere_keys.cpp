// Reads the keys that Command-R and its successors share.
#include "model/families/cohere_keys.hpp"

namespace kvbench {

void read_cohere_keys(const JsonReader& keys, std::span<const std::string_view> handled,
                      ModelConfig& config) {
  read_shared_keys(keys,
                   {.names = {.norm_eps = "layer_norm_eps"},
                    .handled = handled,
                    .max_positions = 8192,
                    .norm_eps = 1e-5,
                    .tied = true,
                    .bos_id = 5,
                    .stop_id = 255001},
                   config);
  refuse_setting(keys, "mlp_bias");
  config.norm = NormKind::layer;
  config.parallel_block = true;
  config.shared_input_norm = true;
  config.qkv_bias = keys.optional_bool("attention_bias").value_or(false);
  config.o_bias = config.qkv_bias;
  config.logit_scale = keys.optional_double("logit_scale", 1e-9, 1e9).value_or(0.0625);
}

}  // namespace kvbench
