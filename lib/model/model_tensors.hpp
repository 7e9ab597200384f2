// The tensors of a checkpoint in the places where the forward pass wants them.
// Names are resolved and shapes and dtypes checked here, once; every view is F32, F16 or BF16.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "model/model_config.hpp"

namespace kvbench {

class Checkpoint;
struct FamilySpec;

struct LayerTensors {
  TensorView input_norm;  // [hidden]

  TensorView q;                      // [n_heads * head_dim, hidden]
  TensorView k;                      // [n_kv_heads * head_dim, hidden]
  TensorView v;                      // [n_kv_heads * head_dim, hidden]
  TensorView o;                      // [hidden, n_heads * head_dim]
  std::optional<TensorView> q_bias;  // [n_heads * head_dim]
  std::optional<TensorView> k_bias;  // [n_kv_heads * head_dim]
  std::optional<TensorView> v_bias;  // [n_kv_heads * head_dim]
  std::optional<TensorView> o_bias;  // [hidden]
  std::optional<TensorView> q_norm;  // [head_dim]
  std::optional<TensorView> k_norm;  // [head_dim]

  TensorView post_norm;  // [hidden], before the MLP

  TensorView gate;                      // [ffn, hidden]
  TensorView up;                        // [ffn, hidden]
  TensorView down;                      // [hidden, ffn]
  std::optional<TensorView> gate_bias;  // [ffn]
  std::optional<TensorView> up_bias;    // [ffn]
  std::optional<TensorView> down_bias;  // [hidden]
};

struct ModelTensors {
  TensorView embedding;   // [vocab, hidden]
  TensorView final_norm;  // [hidden]
  TensorView lm_head;     // [vocab, hidden]
  // lm_head is the embedding matrix itself, so one copy in memory serves both.
  bool lm_head_is_embedding = false;
  std::vector<LayerTensors> layers;  // [n_layers]
  // Things a reader of results should know, one sentence each.
  std::vector<std::string> warnings;
};

// The views point into the checkpoint, which must outlive them. A tensor that is missing, has
// another shape, has a dtype kvbench does not compute with, or is used by nothing is a DataError
// that names it. Where the config says "tied" but the checkpoint holds another lm_head, the
// checkpoint's matrix is used, as the reference implementation does, with a warning.
ModelTensors collect_tensors(const ModelConfig& config, const FamilySpec& family,
                             const Checkpoint& checkpoint);

// Numbers that the model consists of; a tied lm_head counts once, with the embedding.
std::int64_t parameter_count(const ModelTensors& tensors);

}  // namespace kvbench
