// What a checkpoint's chat template puts around the user's text and before the answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kvbench {

enum class ChatUse : std::uint8_t {
  never,
  automatic,  // where the checkpoint has a chat template
  always      // ConfigError where it has none
};

struct NeedleFrame {
  std::string before, after;  // both empty for a plain prompt
  bool chat = false;
};

// DataError for a template that cannot be rendered, with what to do instead.
NeedleFrame needle_frame(const std::filesystem::path& model_directory, ChatUse use);

}  // namespace kvbench
