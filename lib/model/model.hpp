// A model: its configuration and identity, which are there once its checkpoint is open, and its
// weights in a backend's memory. Immutable once loaded, and shared by all sessions that run on it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "core/buffer.hpp"
#include "io/checkpoint.hpp"
#include "model/model_config.hpp"
#include "model/model_tensors.hpp"
#include "model/sink_rows.hpp"

namespace kvbench {

struct NormWeight {
  Buffer weight;  // [hidden] f32; empty: this place has no norm
  Buffer bias;    // [hidden] f32, or empty

  bool present() const { return weight.bytes() > 0; }
};

// down(activation(gate(x)) * up(x)), or down(activation(up(x))).
struct MlpWeights {
  std::unique_ptr<LinearWeight> gate_up;  // [2 * ffn, hidden], [ffn, hidden] without a gate
  std::unique_ptr<LinearWeight> down;     // [hidden, ffn]
};

struct LayerWeights {
  NormWeight input_norm;              // before the attention
  std::unique_ptr<LinearWeight> qkv;  // [(n_heads + 2 n_kv_heads) * head_dim, hidden]
  Buffer q_norm, k_norm;              // f32, see QkNorm; empty without
  std::unique_ptr<LinearWeight> o;    // [hidden, n_heads * head_dim]
  NormWeight attention_output_norm;
  NormWeight mlp_norm;  // before the MLP
  MlpWeights mlp;       // empty where there are experts
  NormWeight mlp_output_norm;
  std::unique_ptr<LinearWeight> router;  // [n_experts, hidden], or null
  std::vector<MlpWeights> experts;       // [n_experts]
};

struct Weights {
  std::unique_ptr<EmbeddingTable> embedding;  // [vocab, hidden]
  std::unique_ptr<EmbeddingTable> positions;  // [max_positions, hidden], or null
  std::unique_ptr<EmbeddingTable> sinks;      // [n, hidden] learned sinks, or null
  std::vector<LayerWeights> layers;           // [n_layers]
  NormWeight final_norm;
  std::vector<std::unique_ptr<LinearWeight>> vocabulary;  // lm_head in blocks of rows
};

class Model {
 public:
  // Opens a Hugging Face checkpoint directory, checks its tensors, and reads them once for their
  // hash: enough to say what a run would be. DataError names file, key or tensor.
  static Model open(const std::filesystem::path& directory, const SinkSource& sinks = {});
  // Makes it ready to run; once. `compute` is the dtype of matrix products, f32 or bf16.
  // DeviceError names what the backend cannot compute. The backend must outlive the model.
  // Sessions on a model with learned sinks begin every text with them.
  void load_weights(Backend& backend, DType compute);
  // Both.
  static Model load(const std::filesystem::path& directory, Backend& backend, DType compute,
                    const SinkSource& sinks = {});

  const ModelConfig& config() const { return config_; }
  bool has_weights() const { return !weights_.layers.empty(); }
  // Precondition: has_weights().
  const Weights& weights() const { return weights_; }
  DType compute() const { return compute_; }
  const std::filesystem::path& directory() const { return checkpoint_.directory(); }
  // What a reader of results should know about this checkpoint, one sentence each.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // SHA-256 of the tensors; see Checkpoint::content_hash.
  const std::string& content_hash() const { return content_hash_; }
  // Dtype of the largest tensor in the files.
  DType storage_dtype() const { return storage_dtype_; }
  // The columns of a layer's output projection that one query head's values meet, row-major:
  // [hidden, head_dim]. Read from the files.
  std::vector<float> output_columns(std::int64_t layer, std::int64_t head) const;
  const SinkRows& sinks() const { return sinks_; }
  // Memory of the prepared matrices.
  std::int64_t weight_bytes() const;

 private:
  Model() = default;

  ModelConfig config_;
  Checkpoint checkpoint_;  // mapped: the embedding is read from it
  SinkRows sinks_;
  ModelTensors tensors_;  // into the checkpoint
  Weights weights_;
  DType compute_ = DType::f32;
  DType storage_dtype_ = DType::f32;
  std::vector<std::string> warnings_;
  std::string content_hash_;
};

}  // namespace kvbench
