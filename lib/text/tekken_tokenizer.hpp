// The tokenizer of a tekken.json: a pattern cuts the text into words, whose bytes are joined by
// rank. Ids equal those of the package mistral-common.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.hpp"
#include "text/bpe.hpp"
#include "text/regex.hpp"
#include "text/tekken_file.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_config.hpp"

namespace kvbench {

class TekkenTokenizer final : public Tokenizer {
 public:
  // Throws DataError that names `file` and the key.
  TekkenTokenizer(TekkenFile content, const std::string& file, const TokenizerConfig& config);

  std::string token_bytes(std::int32_t id) const override;
  // Tokens that are not special are spelled in the byte-level alphabet ("Ġthe").
  std::string piece(std::int32_t id) const override;
  std::optional<std::int32_t> id_of(std::string_view piece) const override;
  bool is_special(std::int32_t id) const override;
  std::int32_t vocab_size() const override { return bpe_.vocabulary().id_limit(); }

 protected:
  std::vector<std::int32_t> encode_text(std::string_view text,
                                        SpecialTokens specials) const override;
  std::unique_ptr<TextStream> text_stream(bool skip_special, bool live) const override;
  std::string kind() const override;

 private:
  class Stream;

  void choose_bos_and_eos(const std::string& file, const TokenizerConfig& config);
  void encode_words(std::string_view text, RegexScratch& scratch, BpeEncoder& encoder,
                    std::vector<std::int32_t>& ids) const;

  std::string file_;
  std::string version_;
  Regex pattern_;
  AddedTokens specials_;
  Bpe bpe_;
};

}  // namespace kvbench
