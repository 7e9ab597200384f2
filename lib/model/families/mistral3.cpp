// Mistral Small 3.1 and 3.2, published with eyes: the text part is mistral.
#include <array>

#include "model/families/family_keys.hpp"
#include "model/families/text_part.hpp"

namespace kvbench {

FamilySpec mistral_family();

namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"Mistral3ForConditionalGeneration"};

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_text_part(keys, mistral_family(), config);
}

}  // namespace

FamilySpec mistral3_family() {
  FamilySpec spec = mistral_family();
  spec.model_type = "mistral3";
  spec.summary = "Mistral Small 3.1 and 3.2 with images; their text part";
  spec.example = {"Mistral Small 3.1 24B", 40, 8, 128};
  spec.architectures = kArchitectures;
  spec.read_config = read_config;
  spec.renamings = kTextPartNames;
  spec.harmless_beginnings = kImageTensors;
  return spec;
}

}  // namespace kvbench
