// The tokenizer that tokenizer.json describes: added tokens, normalizer, pre-tokenizer, BPE,
// decoder, in the order of the reference library.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.hpp"
#include "text/bpe.hpp"
#include "text/decoder.hpp"
#include "text/normalizer.hpp"
#include "text/pre_tokenizer.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_config.hpp"

namespace kvbench {

class JsonTokenizer final : public Tokenizer {
 public:
  // `document` is the content of `file`. Throws DataError for what is malformed or unsupported.
  JsonTokenizer(const nlohmann::json& document, const std::string& file,
                const TokenizerConfig& config);

  std::string token_bytes(std::int32_t id) const override;
  std::string piece(std::int32_t id) const override;
  std::optional<std::int32_t> id_of(std::string_view piece) const override;
  bool is_special(std::int32_t id) const override;
  std::int32_t vocab_size() const override { return vocab_size_; }

 protected:
  std::vector<std::int32_t> encode_text(std::string_view text,
                                        SpecialTokens specials) const override;
  std::unique_ptr<TextStream> text_stream(bool skip_special, bool live) const override;
  std::string kind() const override;

 private:
  class Stream;

  static std::vector<AddedToken> read_added_tokens(const nlohmann::json& document,
                                                   const std::string& file,
                                                   const Vocabulary& vocabulary,
                                                   std::vector<std::string>& warnings);
  void choose_bos(const nlohmann::json& document, const std::string& file,
                  const TokenizerConfig& config);
  void warn_about_missing_bytes(const std::string& file);
  void warn_about_inexact_decoding(const std::string& file);
  // Spelling of an id, or nullptr for a gap in the vocabulary.
  const std::string* spelling(std::int32_t id) const;

  Bpe bpe_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  Decoder decoder_;
  std::unique_ptr<AddedTokens> added_tokens_;
  std::int32_t vocab_size_ = 0;
};

}  // namespace kvbench
