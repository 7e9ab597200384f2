// Gemma 3 as published with eyes (4B and up): the text part is gemma3_text.
#include <array>

#include "model/families/family_keys.hpp"
#include "model/families/text_part.hpp"

namespace kvbench {

FamilySpec gemma3_text_family();

namespace {

constexpr std::array<std::string_view, 1> kArchitectures{"Gemma3ForConditionalGeneration"};

void read_config(const JsonReader& keys, ModelConfig& config) {
  read_text_part(keys, gemma3_text_family(), config);
}

}  // namespace

FamilySpec gemma3_family() {
  FamilySpec spec = gemma3_text_family();
  spec.model_type = "gemma3";
  spec.summary = "Gemma 3 with images; its text part";
  spec.example = {"Gemma 3 27B", 62, 16, 128};
  spec.architectures = kArchitectures;
  spec.read_config = read_config;
  spec.renamings = kTextPartNames;
  spec.harmless_beginnings = kImageTensors;
  return spec;
}

}  // namespace kvbench
