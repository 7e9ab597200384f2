// Model families as data: which config keys mean what, and what the tensors are called.
// A new family is one file in families/ and one row in families/registry.cpp.
#pragma once

#include <span>
#include <string_view>

#include "model/model_config.hpp"

namespace kvbench {

class JsonReader;

// Names of the tensors in a checkpoint; "{}" stands for the layer index. Every ".weight" has its
// bias, where the config says there is one, under the same name with ".bias".
struct TensorPatterns {
  std::string_view embedding;
  std::string_view final_norm;
  std::string_view lm_head;
  std::string_view input_norm;
  std::string_view q, k, v, o;
  std::string_view q_norm, k_norm;
  std::string_view post_norm;
  std::string_view gate, up, down;
};

struct FamilySpec {
  std::string_view model_type;                      // config.json's "model_type"
  std::string_view summary;                         // one line for help and listings
  std::span<const std::string_view> architectures;  // first one: the family's own
  // Fills every field of the config but model_type and architecture from config.json.
  void (*read_config)(const JsonReader& keys, ModelConfig& config);
  TensorPatterns tensors;
  // Name endings of tensors that old checkpoints carry and no forward pass needs.
  std::span<const std::string_view> harmless_endings;
};

std::span<const FamilySpec> families();

// The family of that model_type; an unknown one is a DataError that begins with `where` (the file
// that asks for it) and lists those known.
const FamilySpec& find_family(std::string_view model_type, std::string_view where = "config.json");

}  // namespace kvbench
