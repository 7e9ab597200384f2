// Reading of the two small JSON files beside a tokenizer.
#include "text/tokenizer_config.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>

#include "io/json_file.hpp"
#include "io/json_reader.hpp"
#include "text/vocabulary.hpp"

namespace kvbench {
namespace {

// "</s>", or an object with that as its "content".
std::optional<std::string> token_spelling(const JsonReader& reader, std::string_view key) {
  const nlohmann::json* value = reader.find(key);
  if (value != nullptr && value->is_object()) {
    return reader.require_object(key).require_string("content");
  }
  return reader.optional_string(key);
}

// {"32000": {"content": "<pad>", ...}, ...}
std::vector<AddedToken> read_added_tokens(const JsonReader& reader) {
  std::vector<AddedToken> tokens;
  const nlohmann::json* list = reader.find("added_tokens_decoder");
  if (list == nullptr || list->is_null()) return tokens;
  if (!list->is_object()) reader.fail("added_tokens_decoder", "expected an object");
  for (const auto& [key, entry] : list->items()) {
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc{} || end != key.data() + key.size() || id < 0 || id > kMaxTokenId) {
      reader.fail("added_tokens_decoder", "expected ids as keys, found \"" + key + "\"");
    }
    tokens.push_back(read_added_token(entry, id, reader.where()));
  }
  std::sort(tokens.begin(), tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return tokens;
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::filesystem::path& model_directory) {
  TokenizerConfig config;
  const auto path = model_directory / "tokenizer_config.json";
  config.file = path.string();
  if (std::filesystem::exists(path)) {
    const nlohmann::json document = read_json_file(path);
    const JsonReader reader(document, config.file, JsonErrors::data, NullRule::as_absent);
    config.add_bos_token = reader.optional_bool("add_bos_token");
    config.added_tokens = read_added_tokens(reader);
    config.bos_token = token_spelling(reader, "bos_token");
    config.eos_token = token_spelling(reader, "eos_token");
  }
  const auto generation = model_directory / "generation_config.json";
  if (std::filesystem::exists(generation)) {
    const nlohmann::json document = read_json_file(generation);
    const JsonReader reader(document, generation.string(), JsonErrors::data, NullRule::as_absent);
    const auto ids = reader.optional_int_or_ints("eos_token_id", 0, kMaxTokenId);
    if (ids) config.eos_ids.assign(ids->begin(), ids->end());
  }
  return config;
}

}  // namespace kvbench
