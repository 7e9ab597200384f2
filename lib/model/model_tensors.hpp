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

// A matrix as the checkpoint holds it: blocks of rows that are stacked. Fused matrices are taken
// apart and put into our order this way, without copying.
struct MatrixTensors {
  std::vector<TensorView> blocks = {};  // [out_i, in] each; the whole as [in, out] when transposed
  std::vector<TensorView> biases = {};  // [out_i] each, one per block; or empty
  bool transposed = false;

  bool present() const { return !blocks.empty(); }
};

struct NormTensors {
  std::optional<TensorView> weight;  // nothing: this place has no norm
  std::optional<TensorView> bias;
};

struct ExpertTensors {
  MatrixTensors gate_up;  // [2 * ffn, hidden]
  MatrixTensors down;     // [hidden, ffn]
};

struct LayerTensors {
  NormTensors input_norm;             // [hidden], before the attention
  NormTensors attention_output_norm;  // [hidden]
  NormTensors mlp_norm;               // [hidden], before the MLP
  NormTensors mlp_output_norm;        // [hidden]
  MatrixTensors qkv;                  // [(n_heads + 2 n_kv_heads) * head_dim, hidden]: q, k, v
  MatrixTensors o;                    // [hidden, n_heads * head_dim]
  std::optional<TensorView> q_norm;   // [head_dim], [n_heads, head_dim] or [n_heads * head_dim]
  std::optional<TensorView> k_norm;   // the same, of the KV heads
  MatrixTensors gate_up;              // [2 * ffn, hidden], [ffn, hidden] without a gate
  MatrixTensors down;                 // [hidden, ffn]
  MatrixTensors router;               // [n_experts, hidden]
  std::vector<ExpertTensors> experts;
};

struct ModelTensors {
  TensorView embedding;                 // [vocab, hidden]
  std::optional<TensorView> positions;  // [max_positions, hidden]
  NormTensors final_norm;               // [hidden]
  TensorView lm_head;                   // [vocab, hidden]
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
// `sink_tensor`, where not empty, is read elsewhere: see SinkRows.
ModelTensors collect_tensors(const ModelConfig& config, const FamilySpec& family,
                             const Checkpoint& checkpoint, const std::string& sink_tensor = "");

// Numbers in a layer's matrices.
std::int64_t matrix_elements(const LayerTensors& layer);
// Numbers that the model consists of; a tied lm_head counts once, with the embedding.
std::int64_t parameter_count(const ModelTensors& tensors);

}  // namespace kvbench
