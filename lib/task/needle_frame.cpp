// Definitions of needle_frame.hpp.
#include "task/needle_frame.hpp"

#include <array>
#include <optional>

#include "core/error.hpp"
#include "text/chat_template.hpp"

namespace kvbench {
namespace {

// Stands for the user's text while the template is rendered: no template changes such a word.
constexpr const char* kPlaceholder = "KVBENCHUSERTEXT";

}  // namespace

NeedleFrame needle_frame(const std::filesystem::path& model_directory, ChatUse use) {
  if (use == ChatUse::never) return {};
  std::string text;
  try {
    const std::optional<ChatTemplate> chat = ChatTemplate::load(model_directory);
    if (!chat && use == ChatUse::always) {
      config_error("{}: no chat template (chat_template.jinja, or a key of tokenizer_config.json)",
                   model_directory.string());
    }
    if (!chat) return {};
    text = chat->render(std::array{ChatMessage{"user", kPlaceholder}}, true);
  } catch (const DataError& error) {
    data_error("{}; --chat never asks without the template", error.what());
  }
  const std::size_t at = text.find(kPlaceholder);
  if (at == std::string::npos || text.find(kPlaceholder, at + 1) != std::string::npos) {
    data_error("{}: the chat template does not print the user's text once; use --chat never",
               model_directory.string());
  }
  const std::size_t end = at + std::string_view(kPlaceholder).size();
  return {text.substr(0, at), text.substr(end), true};
}

}  // namespace kvbench
