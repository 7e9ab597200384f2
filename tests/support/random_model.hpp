// A Llama checkpoint of any head layout with random weights, for what must hold for every shape.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/rng.hpp"
#include "tests/support/safetensors_builder.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench::test {

struct RandomModelShape {
  std::int64_t n_layers = 2;
  std::int64_t n_kv_heads = 2;
  std::int64_t group = 1;  // query heads per KV head
  std::int64_t head_dim = 4;
  std::int64_t hidden = 16;
  std::int64_t ffn = 24;
  std::int64_t vocab = 32;
};

// Weights large enough that attention is far from uniform.
inline void write_random_llama(const TempDir& directory, const RandomModelShape& shape,
                               std::uint64_t seed) {
  Rng rng(seed);
  SafetensorsBuilder file;
  const auto matrix = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    const double size = 3.0 / std::sqrt(static_cast<double>(columns));
    for (float& value : values) value = static_cast<float>((2.0 * rng.uniform() - 1.0) * size);
    file.add_f32(name, {rows, columns}, values);
  };
  const auto ones = [&](const std::string& name) {
    file.add_f32(name, {shape.hidden},
                 std::vector<float>(static_cast<std::size_t>(shape.hidden), 1.0f));
  };
  const std::int64_t q_width = shape.n_kv_heads * shape.group * shape.head_dim;
  const std::int64_t kv_width = shape.n_kv_heads * shape.head_dim;
  matrix("model.embed_tokens.weight", shape.vocab, shape.hidden);
  for (std::int64_t layer = 0; layer < shape.n_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    ones(prefix + "input_layernorm.weight");
    matrix(prefix + "self_attn.q_proj.weight", q_width, shape.hidden);
    matrix(prefix + "self_attn.k_proj.weight", kv_width, shape.hidden);
    matrix(prefix + "self_attn.v_proj.weight", kv_width, shape.hidden);
    matrix(prefix + "self_attn.o_proj.weight", shape.hidden, q_width);
    ones(prefix + "post_attention_layernorm.weight");
    matrix(prefix + "mlp.gate_proj.weight", shape.ffn, shape.hidden);
    matrix(prefix + "mlp.up_proj.weight", shape.ffn, shape.hidden);
    matrix(prefix + "mlp.down_proj.weight", shape.hidden, shape.ffn);
  }
  ones("model.norm.weight");
  matrix("lm_head.weight", shape.vocab, shape.hidden);
  directory.write("model.safetensors", file.bytes());
  const nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                                 {"model_type", "llama"},
                                 {"vocab_size", shape.vocab},
                                 {"hidden_size", shape.hidden},
                                 {"intermediate_size", shape.ffn},
                                 {"num_hidden_layers", shape.n_layers},
                                 {"num_attention_heads", shape.n_kv_heads * shape.group},
                                 {"num_key_value_heads", shape.n_kv_heads},
                                 {"head_dim", shape.head_dim},
                                 {"max_position_embeddings", 4096},
                                 {"rms_norm_eps", 1e-5},
                                 {"rope_theta", 10000.0},
                                 {"tie_word_embeddings", false},
                                 {"hidden_act", "silu"}};
  directory.write("config.json", config.dump());
}

}  // namespace kvbench::test
