// Assembly of a tokenizer.json's parts, and their run over a text.
#include "text/tokenizer_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "core/error.hpp"
#include "io/json_reader.hpp"
#include "text/byte_symbols.hpp"
#include "text/post_processor.hpp"

namespace kvbench {
namespace {

// A member of the document, null when absent.
const nlohmann::json& member(const nlohmann::json& document, const char* key) {
  static const nlohmann::json kNull;
  const auto found = document.find(key);
  return found == document.end() ? kNull : *found;
}

const nlohmann::json& require_bpe(const nlohmann::json& document, const std::string& file) {
  if (!document.is_object()) {
    data_error("{}: expected an object, found {}", file, document.type_name());
  }
  const nlohmann::json& model = member(document, "model");
  if (!model.is_object()) {
    data_error("{}: key model: expected an object, found {}", file, model.type_name());
  }
  // Files of early versions have no type.
  const JsonReader reader(model, file, JsonErrors::data, NullRule::as_absent);
  const std::string type = reader.optional_string("type").value_or("BPE");
  if (type != "BPE") {
    data_error("{}: key model.type: \"{}\" is not supported; supported: BPE", file, type);
  }
  return model;
}

}  // namespace

JsonTokenizer::JsonTokenizer(const nlohmann::json& document, const std::string& file,
                             const TokenizerConfig& config)
    : bpe_(require_bpe(document, file), file),
      normalizer_(member(document, "normalizer"), file),
      pre_tokenizer_(member(document, "pre_tokenizer"), file),
      decoder_(member(document, "decoder"), file) {
  added_tokens_ =
      std::make_unique<AddedTokens>(read_added_tokens(document, file, bpe_.vocabulary(), warnings_),
                                    [this](std::string_view text) {
                                      RegexScratch scratch;
                                      return normalizer_.apply(text, scratch);
                                    });
  vocab_size_ = bpe_.vocabulary().id_limit();
  for (const AddedToken& token : added_tokens_->all()) {
    vocab_size_ = std::max(vocab_size_, token.id + 1);
    if (token.special) bpe_.exclude_word(token.id);
  }
  choose_bos(document, file, config);
  warn_about_missing_bytes(file);
  warn_about_inexact_decoding(file);
}

// The reference library gives a token that the model does not have the next free id, whatever the
// file says; the file is right unless someone edited it.
std::vector<AddedToken> JsonTokenizer::read_added_tokens(const nlohmann::json& document,
                                                         const std::string& file,
                                                         const Vocabulary& vocabulary,
                                                         std::vector<std::string>& warnings) {
  const nlohmann::json& list = member(document, "added_tokens");
  if (list.is_null()) return {};
  if (!list.is_array()) {
    data_error("{}: key added_tokens: expected an array, found {}", file, list.type_name());
  }
  std::vector<AddedToken> tokens;
  const std::string where = file + ": key added_tokens";
  for (const auto& entry : list) {
    const JsonReader reader(entry, where, JsonErrors::data);
    const auto id = static_cast<std::int32_t>(reader.require_int("id", 0, kMaxTokenId));
    tokens.push_back(read_added_token(entry, id, where));
  }
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  std::unordered_set<std::string> seen;
  auto next_id = static_cast<std::int32_t>(vocabulary.size());
  for (AddedToken& token : tokens) {
    if (!seen.insert(token.content).second) {
      data_error("{}: key added_tokens: \"{}\" is there twice", file, token.content);
    }
    const auto known = vocabulary.id_of(token.content);
    const std::int32_t id = known ? *known : next_id;
    if (id != token.id) {
      warnings.push_back(fmt::format(
          "{}: key added_tokens: \"{}\" has id {}, but {} gives it id {}, which is used", file,
          token.content, token.id, known ? "the vocabulary" : "the rule of the next free id", id));
    }
    token.id = id;
    next_id = std::max(next_id, id + 1);
  }
  return tokens;
}

void JsonTokenizer::choose_bos(const nlohmann::json& document, const std::string& file,
                               const TokenizerConfig& config) {
  auto bos = bos_of_post_processor(member(document, "post_processor"), file, warnings_);
  std::string said_by = file + ": key post_processor";
  if (config.add_bos_token) {
    said_by = config.file + ": key bos_token";
    if (*config.add_bos_token && !config.bos_token) {
      data_error("{}: key add_bos_token: true, but there is no bos_token", config.file);
    }
    const auto configured = *config.add_bos_token ? config.bos_token : std::nullopt;
    if (configured != bos) {
      warnings_.push_back(fmt::format(
          "{}: key add_bos_token says BOS is {}, the post-processor {}; the former is used",
          config.file, configured.value_or("none"), bos.value_or("none")));
    }
    bos = configured;
  }
  if (!bos) return;
  bos_id_ = id_of(*bos);
  if (!bos_id_) data_error("{}: token \"{}\" is not in the vocabulary", said_by, *bos);
}

void JsonTokenizer::warn_about_missing_bytes(const std::string& file) {
  if (!pre_tokenizer_.byte_level()) return;
  int missing = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const auto symbol = byte_symbol(static_cast<unsigned char>(byte));
    if (!bpe_.vocabulary().id_of(symbol)) ++missing;
  }
  if (missing == 0) return;
  warnings_.push_back(fmt::format("{}: {} of 256 bytes have no token and become {}", file, missing,
                                  bpe_.unk_token().value_or("nothing")));
}

void JsonTokenizer::warn_about_inexact_decoding(const std::string& file) {
  int count = 0;
  std::string example;
  for (std::int32_t id = 0; id < vocab_size_; ++id) {
    const std::string* token = spelling(id);
    if (token == nullptr || decoder_.exact(*token)) continue;
    ++count;
    example = *token;
  }
  if (count == 0) return;
  warnings_.push_back(fmt::format(
      "{}: key decoder: with any of {} tokens (such as \"{}\") in it, a text decodes here, but not "
      "in the reference library, which leaves it in byte-level spelling",
      file, count, example));
}

const std::string* JsonTokenizer::spelling(std::int32_t id) const {
  if (id < 0 || id >= vocab_size_) {
    data_error("id {} is outside the tokenizer's vocabulary of {} ids", id, vocab_size_);
  }
  if (const AddedToken* added = added_tokens_->find(id)) return &added->content;
  return bpe_.vocabulary().token_of(id);
}

std::string JsonTokenizer::piece(std::int32_t id) const {
  const std::string* token = spelling(id);
  return token == nullptr ? std::string() : *token;
}

std::string JsonTokenizer::token_bytes(std::int32_t id) const {
  const std::string* token = spelling(id);
  return token == nullptr ? std::string() : decoder_.decode(*token, false).bytes;
}

std::optional<std::int32_t> JsonTokenizer::id_of(std::string_view piece) const {
  if (const AddedToken* added = added_tokens_->find(piece)) return added->id;
  return bpe_.vocabulary().id_of(piece);
}

bool JsonTokenizer::is_special(std::int32_t id) const {
  return added_tokens_->is_special(id);
}

std::string JsonTokenizer::kind() const {
  const char* alphabet = "characters";
  if (pre_tokenizer_.byte_level()) alphabet = "byte-level";
  if (bpe_.byte_fallback()) alphabet = "byte fallback";
  return fmt::format("tokenizer.json BPE, {}, {} merges", alphabet, bpe_.merge_count());
}

std::vector<std::int32_t> JsonTokenizer::encode_text(std::string_view text,
                                                     SpecialTokens specials) const {
  const bool skip_special = specials == SpecialTokens::text;
  RegexScratch scratch;
  BpeEncoder encoder(bpe_);
  std::vector<std::int32_t> ids;
  for (const TokenSpan& raw : added_tokens_->split_raw(text, skip_special, scratch)) {
    if (raw.id) {
      ids.push_back(*raw.id);
      continue;
    }
    const std::string normalized =
        normalizer_.apply(text.substr(raw.begin, raw.end - raw.begin), scratch);
    for (const TokenSpan& span :
         added_tokens_->split_normalized(normalized, skip_special, scratch)) {
      if (span.id) {
        ids.push_back(*span.id);
        continue;
      }
      const bool at_text_start = raw.begin == 0 && span.begin == 0;
      const PieceList words = pre_tokenizer_.apply(
          normalized.substr(span.begin, span.end - span.begin), at_text_start, scratch);
      for (const Piece& word : words.pieces) encoder.encode(words.view(word), ids);
    }
  }
  return ids;
}

class JsonTokenizer::Stream : public TextStream {
 public:
  Stream(const JsonTokenizer& tokenizer, bool skip_special, bool live)
      : tokenizer_(tokenizer),
        skip_special_(skip_special),
        joiner_(tokenizer.decoder_.bad_bytes(), live),
        strip_left_(tokenizer.decoder_.strip().count) {}

  void push(std::int32_t id, std::string& out) override {
    const Decoder& decoder = tokenizer_.decoder_;
    const std::string* token = tokenizer_.spelling(id);
    if (token == nullptr || (skip_special_ && tokenizer_.is_special(id))) return;
    const std::size_t begin = out.size();
    if (!first_) out.append(decoder.separator());
    const DecodedToken decoded = decoder.decode(*token, first_);
    first_ = false;
    if (decoded.is_bytes) {
      joiner_.add_bytes(decoded.bytes, out);
    } else {
      joiner_.add_text(decoded.bytes, out);
    }
    strip(begin, out);
  }

  void finish(std::string& out) override {
    const std::size_t begin = out.size();
    joiner_.end_run(out);
    strip(begin, out);
  }

 private:
  // Takes the decoder's Strip off what has been appended, while nothing else has come.
  void strip(std::size_t begin, std::string& out) {
    const std::string& text = tokenizer_.decoder_.strip().text;
    while (strip_left_ > 0 && out.size() > begin) {
      if (out.compare(begin, text.size(), text) != 0) {
        strip_left_ = 0;
        return;
      }
      out.erase(begin, text.size());
      --strip_left_;
    }
  }

  const JsonTokenizer& tokenizer_;
  bool skip_special_;
  ByteJoiner joiner_;
  std::size_t strip_left_;
  bool first_ = true;
};

std::unique_ptr<TextStream> JsonTokenizer::text_stream(bool skip_special, bool live) const {
  return std::make_unique<Stream>(*this, skip_special, live);
}

}  // namespace kvbench
