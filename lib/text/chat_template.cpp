// Definitions of chat_template.hpp.
#include "text/chat_template.hpp"

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/json_file.hpp"
#include "io/mapped_file.hpp"
#include "text/jinja_parser.hpp"
#include "text/jinja_renderer.hpp"
#include "text/tokenizer_config.hpp"

namespace kvbench {
namespace {

// The value of chat_template: a text, or a list of {"name": ..., "template": ...}.
std::optional<std::string> template_text(const nlohmann::json& value, const std::string& file) {
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    for (const nlohmann::json& entry : value) {
      if (!entry.is_object() || entry.value("name", nlohmann::json()) != "default") continue;
      const nlohmann::json text = entry.value("template", nlohmann::json());
      if (text.is_string()) return text.get<std::string>();
    }
    data_error("{}: key chat_template: none of the templates is called \"default\"", file);
  }
  data_error("{}: key chat_template: expected a text or a list of templates", file);
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view text, std::string source)
    : source_(std::move(source)), body_(parse_jinja(text, source_)) {}

std::optional<ChatTemplate> ChatTemplate::load(const std::filesystem::path& model_directory) {
  std::optional<ChatTemplate> made;
  const auto own_file = model_directory / "chat_template.jinja";
  const auto config_file = model_directory / "tokenizer_config.json";
  if (std::filesystem::exists(own_file)) {
    const MappedFile file = MappedFile::open(own_file);
    made.emplace(std::string_view(reinterpret_cast<const char*>(file.data()), file.size()),
                 own_file.string());
  } else if (std::filesystem::exists(config_file)) {
    const nlohmann::json document = read_json_file(config_file);
    if (!document.is_object() || !document.contains("chat_template")) return made;
    const auto text = template_text(document["chat_template"], config_file.string());
    if (text) made.emplace(*text, config_file.string() + ": chat_template");
  }
  if (!made) return made;
  const TokenizerConfig config = read_tokenizer_config(model_directory);
  made->bos_token = config.bos_token.value_or("");
  made->eos_token = config.eos_token.value_or("");
  return made;
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages, bool answer_next) const {
  JinjaList list;
  for (const ChatMessage& message : messages) {
    list.emplace_back(JinjaDict{{"role", message.role}, {"content", message.content}});
  }
  JinjaDict given{{"messages", std::move(list)},
                  {"add_generation_prompt", answer_next},
                  {"tools", JinjaNone{}},
                  {"documents", JinjaNone{}}};
  if (!bos_token.empty()) given.emplace_back("bos_token", bos_token);
  if (!eos_token.empty()) given.emplace_back("eos_token", eos_token);
  return render_jinja(body_, given, source_);
}

}  // namespace kvbench
