// Places where a text may be cut before SentencePiece encodes it, without a change of ids. The
// library holds a whole text as one word, and slows down more than in step with its length.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace kvbench {

class SentencePieceCuts {
 public:
  explicit SentencePieceCuts(const sentencepiece::SentencePieceProcessor& processor);

  // Parts whose ids, joined, are those of `text`: some kilobytes each where the model allows it.
  std::vector<std::string_view> parts(std::string_view text) const;

 private:
  // The model puts a space in front of every text, which stands for the one at the cut.
  bool adds_space_ = false;
  bool possible_ = false;
};

}  // namespace kvbench
