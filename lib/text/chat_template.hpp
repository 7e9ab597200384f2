// The chat template of a checkpoint: from messages to the text that the model was trained to read.
// A template is a program in Jinja; a subset of the language is rendered here (if, for, set,
// namespaces, filters, tests, Python's string methods), and anything else is refused by name and
// place, never left out.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/jinja_tree.hpp"

namespace kvbench {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

class ChatTemplate {
 public:
  // chat_template.jinja of a model directory, else the key chat_template of tokenizer_config.json
  // (of several: the one called "default"); nothing where the checkpoint has none. DataError for a
  // template that cannot be parsed.
  static std::optional<ChatTemplate> load(const std::filesystem::path& model_directory);

  // `source` is what messages call the template.
  ChatTemplate(std::string_view text, std::string source);

  // Spellings of special tokens, which a template prints; empty: the template sees none.
  std::string bos_token, eos_token;

  // `answer_next`: with what begins the assistant's answer. DataError names the place in the
  // template, and passes on what the template itself refuses.
  std::string render(std::span<const ChatMessage> messages, bool answer_next) const;

  const std::string& source() const { return source_; }

 private:
  std::string source_;
  JinjaBody body_;
};

}  // namespace kvbench
