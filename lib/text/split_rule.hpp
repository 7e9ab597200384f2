// What becomes of the delimiters that a pre-tokenizer splits at.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/regex.hpp"

namespace kvbench {

enum class SplitBehavior : std::uint8_t {
  removed,
  isolated,              // each a word of its own
  merged_with_previous,  // joined to the word before
  merged_with_next,      // joined to the word after
  contiguous,            // isolated, neighbouring delimiters as one word
};

// The behavior with that spelling in tokenizer.json ("Isolated"), or nothing.
std::optional<SplitBehavior> split_behavior(std::string_view name);

// Turns matches and gaps into words: keeps the spans that remain (is_match has no meaning in the
// result), some of them possibly empty.
void apply_split_behavior(SplitBehavior behavior, std::vector<RegexSpan>& spans);

}  // namespace kvbench
