// The tokenizer of a tokenizer.model, on the SentencePiece library. The normalizer's settings
// (dummy prefix, extra white space) come from the model file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.hpp"
#include "text/sentencepiece_cuts.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_config.hpp"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace kvbench {

class SentencePieceTokenizer final : public Tokenizer {
 public:
  // Throws DataError when the library cannot read the file.
  SentencePieceTokenizer(const std::filesystem::path& path, const TokenizerConfig& config);
  ~SentencePieceTokenizer() override;

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

  void collect_added_tokens(const TokenizerConfig& config);
  void choose_bos_and_eos(const TokenizerConfig& config);
  void probe_leading_space();
  void require_id(std::int32_t id) const;
  // An id that the library itself knows.
  bool in_model(std::int32_t id) const { return id < model_size_; }

  std::string file_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::unique_ptr<SentencePieceCuts> cuts_;
  std::unique_ptr<AddedTokens> added_tokens_;  // control pieces, and tokens beyond the model
  std::int32_t model_size_ = 0;
  std::int32_t vocab_size_ = 0;
  // How the library decodes the white space at the start of a text.
  bool drops_first_space_ = false;
  bool drops_all_leading_spaces_ = false;
};

}  // namespace kvbench
