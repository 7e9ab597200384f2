// One tiny checkpoint or more of every family, for what must hold whatever the model computes.
#pragma once

#include <filesystem>
#include <vector>

#include "tests/support/tiny_model.hpp"

namespace kvbench::test {

inline std::filesystem::path family_folder(const std::string& name) {
  return golden_directory() / "families" / name;
}

// All of families/, and those of tiny/ whose families, variants or rotary scalings have none there.
inline std::vector<std::filesystem::path> family_checkpoints() {
  std::vector<std::filesystem::path> models;
  const nlohmann::json expected = read_golden("families/expected.json");
  for (const auto& item : expected["checkpoints"].items()) {
    models.push_back(family_folder(item.key()));
  }
  for (const char* name :
       {"llama", "mistral_w4", "qwen2_flag_true_mwl1", "qwen3", "mixtral", "cohere", "falcon_mqa",
        "falcon_newdec", "falcon_alibi", "mpt_h6", "neox_parallel", "neox_sequential", "llama_yarn",
        "llama_rope_llama3_small", "llama_dynamic_long", "llama_linear_type"}) {
    models.push_back(tiny_model(name));
  }
  return models;
}

// Learned positions cannot be renumbered.
inline bool has_position_table(const std::filesystem::path& model) {
  return model.filename() == "gpt2";
}

}  // namespace kvbench::test
