// The text part of checkpoints that also see images: its settings stand in "text_config", its
// tensors under a prefix. Without an image it computes what the text model alone does.
#pragma once

#include <array>
#include <string_view>

#include "model/family.hpp"

namespace kvbench {

// Reads "text_config" as `text` does; its "model_type", where given, must be that family's. Special
// ids, tying and dtype may stand outside, too.
void read_text_part(const JsonReader& keys, const FamilySpec& text, ModelConfig& config);

// Both ways of naming: as published (language_model.model.layers...) and as newer versions of the
// reference implementation save them (model.language_model.layers...).
inline constexpr std::array<Renaming, 3> kTextPartNames{
    Renaming{"model.", "language_model.model."}, Renaming{"model.", "model.language_model."},
    Renaming{"lm_head.", "language_model.lm_head."}};

inline constexpr std::array<std::string_view, 4> kImageTensors{
    "vision_tower.", "multi_modal_projector.", "model.vision_tower.",
    "model.multi_modal_projector."};

}  // namespace kvbench
