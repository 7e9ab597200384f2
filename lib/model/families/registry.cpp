// The table of model families. One row each; the rows come from the files beside this one.
#include <array>
#include <string>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "model/family.hpp"

namespace kvbench {

FamilySpec llama_family();
FamilySpec mistral_family();
FamilySpec mistral3_family();
FamilySpec mixtral_family();
FamilySpec qwen2_family();
FamilySpec qwen3_family();
FamilySpec phi3_family();
FamilySpec smollm3_family();
FamilySpec gemma_family();
FamilySpec gemma2_family();
FamilySpec gemma3_text_family();
FamilySpec gemma3_family();
FamilySpec olmo2_family();
FamilySpec cohere_family();
FamilySpec cohere2_family();
FamilySpec falcon_family();
FamilySpec mpt_family();
FamilySpec gpt_neox_family();
FamilySpec gpt2_family();

std::span<const FamilySpec> families() {
  static const std::array kFamilies{
      llama_family(),       mistral_family(), mistral3_family(), mixtral_family(), qwen2_family(),
      qwen3_family(),       phi3_family(),    smollm3_family(),  gemma_family(),   gemma2_family(),
      gemma3_text_family(), gemma3_family(),  olmo2_family(),    cohere_family(),  cohere2_family(),
      falcon_family(),      mpt_family(),     gpt_neox_family(), gpt2_family(),
  };
  return kFamilies;
}

const FamilySpec& find_family(std::string_view model_type, std::string_view where) {
  std::string known;
  for (const FamilySpec& family : families()) {
    if (family.model_type == model_type) return family;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family.model_type);
  }
  data_error("{}: model_type \"{}\" is not supported; known: {}", where, printable(model_type),
             known);
}

}  // namespace kvbench
