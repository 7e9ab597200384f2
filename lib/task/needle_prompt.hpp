// Prompts with needles in them: haystack cut or repeated so that the prompt has exactly as many
// tokens as asked for. Pieces are tokenized apart and joined as ids, never read back and tokenized
// anew, so a needle's ids stand unbroken wherever the haystack was cut.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer.hpp"

namespace kvbench {

struct NeedlePieces {
  std::vector<std::int32_t> intro;
  std::vector<std::vector<std::int32_t>> needles;
  std::vector<std::int32_t> question;
};

struct NeedlePlace {
  std::int64_t first = 0;   // token of the prompt
  std::int64_t tokens = 0;  // of the needle
  double depth = 0.0;       // share of the haystack that stands before it
};

struct NeedlePrompt {
  std::vector<std::int32_t> context;   // intro, haystack and needles
  std::vector<std::int32_t> question;  // the prompt's last ids
  std::vector<NeedlePlace> needles;    // in the order of the pieces
  std::int64_t haystack_tokens = 0;
  std::int64_t haystack_repeats = 1;  // times that the text was begun
};

// A text to cut haystacks from, and where a needle may stand in it.
class Haystack {
 public:
  // ConfigError where there are no ids. Both must outlive the haystack. `sentences`: needles stand
  // between sentences only.
  Haystack(std::span<const std::int32_t> ids, const Tokenizer& tokenizer, bool sentences);

  std::int64_t size() const { return static_cast<std::int64_t>(ids_.size()); }
  // `tokens` ids from `first` on; where the text is too short, it begins again.
  std::vector<std::int32_t> cut(std::int64_t first, std::int64_t tokens) const;
  // The place in `part` for a needle at `depth`: the token before which it stands. With sentences:
  // the last such place at or before the depth where a sentence begins, or the part's beginning.
  std::int64_t place(std::span<const std::int32_t> part, double depth) const;

 private:
  bool sentence_begins(std::span<const std::int32_t> part, std::size_t at) const;

  std::span<const std::int32_t> ids_;
  const Tokenizer& tokenizer_;
  bool sentences_;
};

// A prompt of exactly `length` tokens, its haystack from token `first` of the text on. depths: one
// for each needle. ConfigError where intro, needles and question alone are longer.
NeedlePrompt assemble_needle_prompt(const NeedlePieces& pieces, const Haystack& haystack,
                                    std::int64_t first, std::int64_t length,
                                    std::span<const double> depths);

}  // namespace kvbench
