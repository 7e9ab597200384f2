// SentencePiece behind the Tokenizer interface. Decoding is done here, token by token, by the
// library's rules, so that a stream of ids decodes as the whole does.
#include "text/sentencepiece_model.hpp"

#include <sentencepiece_processor.h>

#include <algorithm>

#include "core/error.hpp"
#include "text/text_stream.hpp"
#include "text/utf8.hpp"

namespace kvbench {
namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581

std::string with_spaces(std::string_view piece) {
  std::string out;
  for (std::size_t at = 0; at < piece.size();) {
    const bool space = piece.substr(at).starts_with(kSpaceSymbol);
    out.push_back(space ? ' ' : piece[at]);
    at += space ? kSpaceSymbol.size() : 1;
  }
  return out;
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(const std::filesystem::path& path,
                                               const TokenizerConfig& config)
    : file_(path.string()), processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  const auto status = processor_->Load(file_);
  if (!status.ok()) data_error("{}: SentencePiece: {}", file_, status.ToString());
  model_size_ = processor_->GetPieceSize();
  cuts_ = std::make_unique<SentencePieceCuts>(*processor_);
  collect_added_tokens(config);
  choose_bos_and_eos(config);
  probe_leading_space();
}

SentencePieceTokenizer::~SentencePieceTokenizer() = default;

// The library never finds a control piece in a text; where they are asked for, the text is cut at
// them, as at the tokens that tokenizer_config.json adds.
void SentencePieceTokenizer::collect_added_tokens(const TokenizerConfig& config) {
  std::vector<AddedToken> tokens;
  for (std::int32_t id = 0; id < model_size_; ++id) {
    if (!processor_->IsControl(id) && !processor_->IsUnknown(id)) continue;
    AddedToken token;
    token.id = id;
    token.content = processor_->IdToPiece(id);
    token.special = true;
    tokens.push_back(std::move(token));
  }
  vocab_size_ = model_size_;
  for (AddedToken token : config.added_tokens) {
    if (in_model(token.id)) continue;
    token.normalized = false;  // the library normalizes on its own
    vocab_size_ = std::max(vocab_size_, token.id + 1);
    tokens.push_back(std::move(token));
  }
  added_tokens_ = std::make_unique<AddedTokens>(
      std::move(tokens), [](std::string_view text) { return std::string(text); });
}

// Llama's tokenizer adds BOS unless its configuration says otherwise.
void SentencePieceTokenizer::choose_bos_and_eos(const TokenizerConfig& config) {
  if (processor_->eos_id() >= 0) eos_ids_ = {processor_->eos_id()};
  if (config.add_bos_token && !*config.add_bos_token) return;
  if (config.bos_token) {
    bos_id_ = id_of(*config.bos_token);
    if (!bos_id_) {
      data_error("{}: key bos_token: \"{}\" is not in {}", config.file, *config.bos_token, file_);
    }
  } else if (processor_->bos_id() >= 0) {
    bos_id_ = processor_->bos_id();
  } else if (config.add_bos_token) {
    data_error("{}: key add_bos_token: true, but neither bos_token nor {} names one", config.file,
               file_);
  }
  if (bos_id_ && !config.add_bos_token) {
    warnings_.push_back(fmt::format("{}: add_bos_token is not stated; BOS is {}, as for Llama",
                                    config.file, piece(*bos_id_)));
  }
}

// The library keeps the two settings to itself; what it decodes shows them.
void SentencePieceTokenizer::probe_leading_space() {
  for (std::int32_t id = 0; id < model_size_; ++id) {
    const std::string& piece = processor_->IdToPiece(id);
    if (!piece.starts_with(kSpaceSymbol) || processor_->IsControl(id) ||
        processor_->IsUnknown(id)) {
      continue;
    }
    // Without its leading space, the piece "_" alone is an empty text.
    std::string once;
    std::string twice;
    if (!processor_->Decode(std::vector<int>{id}, &once).ok() ||
        !processor_->Decode(std::vector<int>{id, id}, &twice).ok()) {
      data_error("{}: SentencePiece cannot decode piece {}", file_, id);
    }
    drops_first_space_ = !once.starts_with(' ');
    if (piece == kSpaceSymbol) {
      drops_all_leading_spaces_ = twice.empty();
      return;
    }
  }
}

void SentencePieceTokenizer::require_id(std::int32_t id) const {
  if (id < 0 || id >= vocab_size_) {
    data_error("id {} is outside the tokenizer's vocabulary of {} ids", id, vocab_size_);
  }
}

std::string SentencePieceTokenizer::piece(std::int32_t id) const {
  require_id(id);
  if (in_model(id)) return processor_->IdToPiece(id);
  const AddedToken* token = added_tokens_->find(id);
  return token == nullptr ? std::string() : token->content;
}

std::string SentencePieceTokenizer::token_bytes(std::int32_t id) const {
  std::string spelling = piece(id);
  if (!in_model(id)) return spelling;
  if (processor_->IsControl(id)) return "";
  if (processor_->IsUnknown(id)) {
    // What the library shows for an unknown piece is part of the model file.
    std::string text;
    const auto status = processor_->Decode(std::vector<int>{id}, &text);
    if (!status.ok()) data_error("{}: SentencePiece: {}", file_, status.ToString());
    return text;
  }
  if (processor_->IsByte(id)) {
    return std::string(1, static_cast<char>(std::stoi(spelling.substr(3, 2), nullptr, 16)));
  }
  return with_spaces(spelling);
}

std::optional<std::int32_t> SentencePieceTokenizer::id_of(std::string_view piece) const {
  if (const AddedToken* token = added_tokens_->find(piece)) return token->id;
  const std::int32_t id = processor_->PieceToId({piece.data(), piece.size()});
  // The library gives the unknown id for what it does not have.
  if (processor_->IsUnknown(id)) return std::nullopt;
  return id;
}

bool SentencePieceTokenizer::is_special(std::int32_t id) const {
  return added_tokens_->is_special(id);
}

std::string SentencePieceTokenizer::kind() const {
  return fmt::format("tokenizer.model SentencePiece, {} pieces", model_size_);
}

std::vector<std::int32_t> SentencePieceTokenizer::encode_text(std::string_view text,
                                                              SpecialTokens specials) const {
  RegexScratch scratch;
  std::vector<std::int32_t> ids;
  std::vector<int> part_ids;
  for (const TokenSpan& span :
       added_tokens_->split_raw(text, specials == SpecialTokens::text, scratch)) {
    if (span.id) {
      ids.push_back(*span.id);
      continue;
    }
    for (const std::string_view part :
         cuts_->parts(text.substr(span.begin, span.end - span.begin))) {
      const auto status = processor_->Encode({part.data(), part.size()}, &part_ids);
      if (!status.ok()) data_error("{}: SentencePiece: {}", file_, status.ToString());
      ids.insert(ids.end(), part_ids.begin(), part_ids.end());
    }
  }
  return ids;
}

class SentencePieceTokenizer::Stream : public TextStream {
 public:
  Stream(const SentencePieceTokenizer& tokenizer, bool skip_special, bool live)
      : tokenizer_(tokenizer),
        skip_special_(skip_special),
        joiner_(BadBytes::each_byte, live),
        at_start_(tokenizer.drops_first_space_) {}

  void push(std::int32_t id, std::string& out) override {
    const std::string bytes = tokenizer_.token_bytes(id);
    if (skip_special_ && tokenizer_.is_special(id)) return;
    if (tokenizer_.in_model(id) && tokenizer_.processor_->IsByte(id)) {
      at_start_ = false;
      joiner_.add_bytes(bytes, out);
      return;
    }
    joiner_.end_run(out);
    std::string_view text = bytes;
    const bool is_word = tokenizer_.in_model(id) && !tokenizer_.processor_->IsUnknown(id);
    if (at_start_ && is_word && text.starts_with(' ')) {
      text.remove_prefix(1);
      at_start_ = tokenizer_.drops_all_leading_spaces_;
    }
    if (!text.empty()) at_start_ = false;
    joiner_.add_text(text, out);
  }

  void finish(std::string& out) override { joiner_.end_run(out); }

 private:
  const SentencePieceTokenizer& tokenizer_;
  bool skip_special_;
  ByteJoiner joiner_;
  bool at_start_;  // a leading space would be left out
};

std::unique_ptr<TextStream> SentencePieceTokenizer::text_stream(bool skip_special,
                                                                bool live) const {
  return std::make_unique<Stream>(*this, skip_special, live);
}

}  // namespace kvbench
