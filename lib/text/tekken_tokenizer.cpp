// Words of a text to ids by rank, and ids to bytes.
#include "text/tekken_tokenizer.hpp"

#include <utility>

#include "core/error.hpp"
#include "text/byte_symbols.hpp"
#include "text/text_stream.hpp"

namespace kvbench {
namespace {

std::vector<std::string> spelled(const std::vector<std::string>& tokens) {
  std::vector<std::string> spellings(tokens.size());
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    append_byte_symbols(tokens[rank], spellings[rank]);
  }
  return spellings;
}

std::string as_it_is(std::string_view text) {
  return std::string(text);
}

}  // namespace

TekkenTokenizer::TekkenTokenizer(TekkenFile content, const std::string& file,
                                 const TokenizerConfig& config)
    : file_(file),
      version_(std::move(content.version)),
      pattern_(Regex::pattern(content.pattern, file + ": key config.pattern")),
      specials_(content.specials, as_it_is),
      bpe_(spelled(content.tokens), static_cast<std::int32_t>(content.specials.size()),
           file + ": key vocab") {
  choose_bos_and_eos(file, config);
}

// Mistral's own code puts BOS in front of every prompt.
void TekkenTokenizer::choose_bos_and_eos(const std::string& file, const TokenizerConfig& config) {
  if (const AddedToken* eos = specials_.find("</s>")) eos_ids_ = {eos->id};
  if (!config.add_bos_token.value_or(true)) return;
  const std::string name = config.bos_token.value_or("<s>");
  bos_id_ = id_of(name);
  if (bos_id_) return;
  if (config.bos_token) {
    data_error("{}: key bos_token: \"{}\" is not in {}", config.file, name, file);
  }
  if (config.add_bos_token) {
    data_error("{}: key add_bos_token: true, but {} has no \"{}\"", config.file, file, name);
  }
}

std::string TekkenTokenizer::piece(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    data_error("id {} is outside the tokenizer's vocabulary of {} ids", id, vocab_size());
  }
  if (const AddedToken* special = specials_.find(id)) return special->content;
  return *bpe_.vocabulary().token_of(id);
}

std::string TekkenTokenizer::token_bytes(std::int32_t id) const {
  std::string spelling = piece(id);
  return is_special(id) ? spelling : bytes_of_token(spelling);
}

std::optional<std::int32_t> TekkenTokenizer::id_of(std::string_view piece) const {
  if (const AddedToken* special = specials_.find(piece)) return special->id;
  return bpe_.vocabulary().id_of(piece);
}

bool TekkenTokenizer::is_special(std::int32_t id) const {
  return specials_.is_special(id);
}

std::string TekkenTokenizer::kind() const {
  return fmt::format("tekken.json {} BPE by rank, {} special tokens", version_,
                     specials_.all().size());
}

// The reference drops what the pattern leaves out, without a word.
void TekkenTokenizer::encode_words(std::string_view text, RegexScratch& scratch,
                                   BpeEncoder& encoder, std::vector<std::int32_t>& ids) const {
  std::vector<RegexSpan> spans;
  std::string word;
  pattern_.find_all(text, scratch, spans);
  for (const RegexSpan& span : spans) {
    if (!span.is_match) {
      data_error("{}: key config.pattern: matches nothing at byte {} of a text of {} bytes", file_,
                 span.begin, text.size());
    }
    word.clear();
    append_byte_symbols(text.substr(span.begin, span.end - span.begin), word);
    if (!word.empty()) encoder.encode(word, ids);
  }
}

std::vector<std::int32_t> TekkenTokenizer::encode_text(std::string_view text,
                                                       SpecialTokens specials) const {
  RegexScratch scratch;
  BpeEncoder encoder(bpe_);
  std::vector<std::int32_t> ids;
  for (const TokenSpan& span :
       specials_.split_raw(text, specials == SpecialTokens::text, scratch)) {
    if (span.id) {
      ids.push_back(*span.id);
    } else {
      encode_words(text.substr(span.begin, span.end - span.begin), scratch, encoder, ids);
    }
  }
  return ids;
}

class TekkenTokenizer::Stream : public TextStream {
 public:
  Stream(const TekkenTokenizer& tokenizer, bool skip_special, bool live)
      : tokenizer_(tokenizer), skip_special_(skip_special), joiner_(BadBytes::each_part, live) {}

  // A special token ends a character even where it is not shown.
  void push(std::int32_t id, std::string& out) override {
    const std::string bytes = tokenizer_.token_bytes(id);
    if (!tokenizer_.is_special(id)) {
      joiner_.add_bytes(bytes, out);
    } else {
      joiner_.add_text(skip_special_ ? std::string_view() : bytes, out);
    }
  }

  void finish(std::string& out) override { joiner_.end_run(out); }

 private:
  const TekkenTokenizer& tokenizer_;
  bool skip_special_;
  ByteJoiner joiner_;
};

std::unique_ptr<TextStream> TekkenTokenizer::text_stream(bool skip_special, bool live) const {
  return std::make_unique<Stream>(*this, skip_special, live);
}

}  // namespace kvbench
