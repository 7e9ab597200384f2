// Pre-tokenizers of tokenizer.json: they cut a text into the words that BPE works on.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.hpp"

namespace kvbench {

// A word, as a range of bytes of PieceList::text.
struct Piece {
  std::size_t begin;
  std::size_t end;
  bool at_text_start;  // the first character of the whole text is the piece's first
};

// A text and its words so far; no word is empty.
struct PieceList {
  std::string text;
  std::vector<Piece> pieces;

  std::string_view view(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

// One step. Read-only after construction.
class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  virtual void apply(PieceList& list, RegexScratch& scratch) const = 0;
};

class PreTokenizer {
 public:
  // The `pre_tokenizer` of tokenizer.json; null means none (the text is one word). Throws
  // DataError for a type that is not supported.
  PreTokenizer(const nlohmann::json& spec, const std::string& file);

  // Words of a part of a text; `at_text_start` when nothing stands before it.
  PieceList apply(std::string text, bool at_text_start, RegexScratch& scratch) const;
  // Whether words are spelled in the byte-level alphabet.
  bool byte_level() const { return byte_level_; }

 private:
  std::vector<std::unique_ptr<PreTokenizerStep>> steps_;
  bool byte_level_ = false;
};

}  // namespace kvbench
