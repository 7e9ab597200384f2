// The table of model families. One row each; the rows come from the files beside this one.
#include <array>
#include <string>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "model/family.hpp"

namespace kvbench {

FamilySpec llama_family();
FamilySpec mistral_family();
FamilySpec qwen2_family();
FamilySpec qwen3_family();

std::span<const FamilySpec> families() {
  static const std::array kFamilies{
      llama_family(),
      mistral_family(),
      qwen2_family(),
      qwen3_family(),
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
