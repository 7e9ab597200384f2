// Model families as data: which config keys mean what, and what the tensors are called.
// A new family is one file in families/ and one row in families/registry.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/model_config.hpp"

namespace kvbench {

class JsonReader;

// Names of the tensors in a checkpoint; the first "{}" stands for the layer index, a second one for
// the expert's. Every ".weight" has its bias, where the config says there is one, under the same
// name with ".bias". Names that the family does not have are empty.
struct TensorPatterns {
  std::string_view embedding = {};
  std::string_view positions = {};  // [max_positions, hidden]
  std::string_view final_norm = {};
  std::string_view lm_head = {};
  std::string_view input_norm = {};  // before the attention
  std::string_view attention_output_norm = {};
  std::string_view mlp_norm = {};  // before the MLP
  std::string_view mlp_output_norm = {};
  std::string_view q = {}, k = {}, v = {};
  std::string_view qkv = {};  // in place of q, k and v: one matrix, see QkvLayout
  std::string_view o = {};
  std::string_view q_norm = {}, k_norm = {};
  std::string_view gate = {}, up = {}, down = {};  // no gate: up and down alone
  std::string_view gate_up = {};  // in place of gate and up: gate's rows, then up's
  std::string_view router = {};
  std::string_view expert_gate = {}, expert_up = {},
                   expert_down = {};  // [ffn, hidden], [hidden, ffn] each
  // In place of those: all experts in one tensor, [n_experts, 2 * ffn, hidden] and
  // [n_experts, hidden, ffn].
  std::string_view experts_gate_up = {}, experts_down = {};
};

// How the rows of a fused query, key and value matrix are ordered.
enum class QkvLayout : std::uint8_t {
  stacked,  // all of q, then all of k, then all of v
  grouped   // per KV head: the q of its group, then k, then v
};

// A part of a tensor's name that some checkpoints spell another way.
struct Renaming {
  std::string_view ours, theirs;
};

// A published model of a family, for tables that compare the sizes of caches.
struct KnownModel {
  std::string_view name;
  std::int64_t n_layers;
  std::int64_t n_kv_heads;
  std::int64_t head_dim;

  // Bytes of the keys and values of one token, each number in `bytes_per_number`.
  std::int64_t kv_bytes_per_token(std::int64_t bytes_per_number) const {
    return 2 * n_layers * n_kv_heads * head_dim * bytes_per_number;
  }
};

struct FamilySpec {
  std::string_view model_type;  // config.json's "model_type"
  std::string_view summary;     // one line for help and listings
  KnownModel example;
  std::span<const std::string_view> architectures;  // first one: the family's own
  // Fills every field of the config but model_type and architecture from config.json.
  void (*read_config)(const JsonReader& keys, ModelConfig& config);
  TensorPatterns tensors;
  QkvLayout qkv_layout = QkvLayout::stacked;
  bool transposed = false;  // matrices are stored [in, out]
  // Tried in order where a checkpoint does not have a tensor under our name.
  std::span<const Renaming> renamings = {};
  // Name endings of tensors that old checkpoints carry and no forward pass needs.
  std::span<const std::string_view> harmless_endings;
  // Beginnings of names of tensors that work on images alone.
  std::span<const std::string_view> harmless_beginnings = {};
};

std::span<const FamilySpec> families();

// The family of that model_type; an unknown one is a DataError that begins with `where` (the file
// that asks for it) and lists those known.
const FamilySpec& find_family(std::string_view model_type, std::string_view where = "config.json");

}  // namespace kvbench
