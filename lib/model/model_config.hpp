// What a checkpoint's config.json says about the model, with every default resolved.
// The forward pass reads this and nothing else about the architecture; which key has which
// default is the family's business (families/*.cpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/layer_kinds.hpp"
#include "model/rope.hpp"

namespace kvbench {

// How a layer learns where its tokens stand.
enum class PositionKind : std::uint8_t {
  rotary,  // queries and keys are turned (RoPE); single layers may be left unturned (NoPE)
  alibi,   // scores fall with distance (arXiv:2108.12409)
  table    // a learned row per position is added to the embedding
};

// Norms on queries and keys, after their projection and before RoPE.
enum class QkNorm : std::uint8_t {
  none,
  head,       // over each head, all heads with the same [head_dim] weights
  each_head,  // over each head, each with weights of its own
  whole       // over all heads together
};

struct ModelConfig {
  std::string model_type;    // config.json's "model_type": the family
  std::string architecture;  // first of "architectures"; the family's own when absent

  std::int64_t vocab_size = 0;   // rows of the embedding, padding rows included
  std::int64_t hidden_size = 0;  // width of the residual stream
  std::int64_t ffn_size = 0;     // inner width of the MLP
  std::int64_t n_layers = 0;
  std::int64_t n_heads = 0;        // query heads
  std::int64_t n_kv_heads = 0;     // divides n_heads
  std::int64_t head_dim = 0;       // even; n_heads * head_dim need not be hidden_size
  std::int64_t max_positions = 0;  // context length in tokens that the model claims

  NormKind norm = NormKind::rms;
  double norm_eps = 1e-6;
  Activation activation = Activation::silu;
  bool qkv_bias = false;  // biases on q, k and v
  bool o_bias = false;    // bias on the attention output
  bool mlp_bias = false;  // biases on gate, up and down
  QkNorm qk_norm = QkNorm::none;

  bool norm_bias = false;              // layer norms have biases
  bool norm_weights_less_one = false;  // norms multiply by 1 + weight (Gemma)
  bool input_norms = true;             // attention and MLP read a normed residual stream
  bool output_norms = false;           // what they compute is normed before it is added
  // The MLP reads the residual stream as it was before the attention of the same block ...
  bool parallel_block = false;
  bool shared_input_norm = false;  // ... through the attention's norm
  bool gated_mlp = true;

  // Above 0: the MLP is this many gated ones, of which a router picks `n_active_experts` per token.
  std::int64_t n_experts = 0;
  std::int64_t n_active_experts = 0;

  double attention_scale = 0.0;      // of q . k; 1 / sqrt(head_dim), usually
  double attention_logit_cap = 0.0;  // above 0: scores become cap * tanh(score / cap)
  double qkv_clip = 0.0;             // above 0: q, k and v are clamped to this absolute value
  double embedding_scale = 1.0;
  double logit_scale = 1.0;
  double logit_cap = 0.0;  // above 0: logits become cap * tanh(logit / cap), once scaled

  // The logits use the embedding matrix, says config.json. What the checkpoint really holds is
  // decided by collect_tensors.
  bool tie_word_embeddings = false;

  // [n_layers] keys a query may see, itself included; nothing: all of them.
  std::vector<std::optional<std::int64_t>> sliding_windows;

  PositionKind positions = PositionKind::rotary;
  RopeConfig rope;                         // rotary only
  std::optional<RopeConfig> sliding_rope;  // of the layers that slide; nothing: `rope`
  std::vector<bool> unrotated;             // [n_layers] NoPE layers; empty: none
  std::vector<float> alibi_slopes;         // alibi: [n_heads], taken off the score per distance

  // Generation ends at any of these; empty: only the length ends it.
  std::vector<std::int32_t> stop_ids;
  std::optional<std::int32_t> bos_id;

  // The dtype config.json claims; the tensors' own dtypes are what is stored.
  std::optional<DType> declared_dtype;

  // Things a reader of results should know, one sentence each.
  std::vector<std::string> warnings;

  std::optional<std::int64_t> window_of(std::int64_t layer) const {
    return sliding_windows.at(static_cast<std::size_t>(layer));
  }
  bool slides() const;
  // The rotary embedding of a layer; nullptr where nothing turns.
  const RopeConfig* rope_of(std::int64_t layer) const;
  // Query heads that share one KV head.
  std::int64_t group_size() const { return n_heads / n_kv_heads; }
  // Bytes that one token's keys and values take over all layers, when stored in `dtype`.
  std::int64_t kv_bytes_per_token(DType dtype) const;
};

std::string_view activation_name(Activation activation);
std::string_view position_kind_name(PositionKind kind);

// Reads DIRECTORY/config.json and, where it exists, generation_config.json (whose stop ids win).
// An unknown family, a missing or mistyped key, sizes that do not fit together, and settings that
// change the arithmetic in a way kvbench does not implement are DataErrors naming file and key.
ModelConfig read_model_config(const std::filesystem::path& directory);

}  // namespace kvbench
