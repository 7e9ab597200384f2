// Cuts lie before a space between an ASCII letter or digit and an ASCII letter, in BPE models none
// of whose pieces could reach across it. Normalization leaves such places alone.
#include "text/sentencepiece_cuts.hpp"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace kvbench {
namespace {

using sentencepiece::SentencePieceProcessor;

constexpr std::size_t kPartBytes = 1024;
constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_letter_or_digit(char c) {
  return is_letter(c) || (c >= '0' && c <= '9');
}

// Whether a space stands behind anything but spaces.
bool reaches_across(std::string_view piece) {
  if (piece.find(' ') != std::string_view::npos) return true;
  while (piece.starts_with(kSpaceSymbol)) piece.remove_prefix(kSpaceSymbol.size());
  return piece.find(kSpaceSymbol) != std::string_view::npos;
}

// Scores of BPE are ranks, whole numbers; those of unigram models are logarithms, and their sums
// depend on all that stands before.
bool every_piece_allows_cuts(const SentencePieceProcessor& processor) {
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    if (processor.IsControl(id) || processor.IsUnknown(id) || processor.IsByte(id)) continue;
    const float score = processor.GetScore(id);
    if (std::floor(score) != score || reaches_across(processor.IdToPiece(id))) return false;
  }
  // Unknown characters side by side become one id.
  return !processor.IsUnknown(processor.PieceToId(kSpaceSymbol.data()));
}

std::vector<int> encoded(const SentencePieceProcessor& processor, std::string_view text) {
  std::vector<int> ids;
  if (!processor.Encode({text.data(), text.size()}, &ids).ok()) ids.clear();
  return ids;
}

bool same_in_two_parts(const SentencePieceProcessor& processor, std::string_view first,
                       std::string_view second) {
  std::string whole(first);
  if (!second.starts_with(' ')) whole.push_back(' ');
  whole.append(second);
  std::vector<int> ids = encoded(processor, first);
  const std::vector<int> rest = encoded(processor, second);
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids == encoded(processor, whole);
}

}  // namespace

SentencePieceCuts::SentencePieceCuts(const SentencePieceProcessor& processor) {
  if (!every_piece_allows_cuts(processor)) return;
  adds_space_ = same_in_two_parts(processor, "a", "b");
  possible_ = adds_space_ || same_in_two_parts(processor, "a", " b");
}

std::vector<std::string_view> SentencePieceCuts::parts(std::string_view text) const {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (std::size_t at = kPartBytes; possible_ && at + 1 < text.size(); ++at) {
    const bool cut = text[at] == ' ' && is_letter_or_digit(text[at - 1]) && is_letter(text[at + 1]);
    if (!cut) continue;
    parts.push_back(text.substr(begin, at - begin));
    begin = adds_space_ ? at + 1 : at;
    at += kPartBytes;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace kvbench
