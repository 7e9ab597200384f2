// Added tokens: strings that are cut out of the text before it is tokenized.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/regex.hpp"

namespace kvbench {

// One entry of `added_tokens`.
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  // not inside a word
  bool lstrip = false;       // takes the white space to its left
  bool rstrip = false;       // takes the white space to its right
  bool normalized = false;   // looked for in the normalized text
  bool special = false;
};

// Reads the flags and the content of an entry; `id` is its place among the tokens. Throws
// DataError.
AddedToken read_added_token(const nlohmann::json& entry, std::int32_t id, const std::string& where);

// A part of a text: an added token, or text between two.
struct TokenSpan {
  std::size_t begin;
  std::size_t end;
  std::optional<std::int32_t> id;
};

// Finds the longest token at the leftmost place, again and again. Read-only after construction.
class AddedTokens {
 public:
  using Normalize = std::function<std::string(std::string_view)>;

  AddedTokens(std::vector<AddedToken> tokens, const Normalize& normalize);
  AddedTokens(const AddedTokens&) = delete;
  AddedTokens& operator=(const AddedTokens&) = delete;

  // Parts of a text before normalization: tokens without the flag `normalized`.
  // With `skip_special`, special tokens are text like any other.
  std::vector<TokenSpan> split_raw(std::string_view text, bool skip_special,
                                   RegexScratch& scratch) const;
  // Parts of a normalized text: tokens with that flag.
  std::vector<TokenSpan> split_normalized(std::string_view text, bool skip_special,
                                          RegexScratch& scratch) const;

  const AddedToken* find(std::int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  bool is_special(std::int32_t id) const;
  const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  // A trie over bytes; node 0 is the root.
  struct Trie {
    std::unordered_map<std::uint64_t, std::uint32_t> children;  // node << 8 | byte -> node
    std::vector<const AddedToken*> ends = {nullptr};            // [node]
    std::vector<bool> starts = std::vector<bool>(256, false);   // [first byte]

    void insert(std::string_view text, const AddedToken* token);
    // Longest token that begins at `at`; its end goes to `end`.
    const AddedToken* longest(std::string_view text, std::size_t at, std::size_t& end) const;
  };

  std::vector<TokenSpan> split(const Trie& trie, std::string_view text, bool skip_special,
                               RegexScratch& scratch) const;
  bool is_single_word(std::string_view text, std::size_t begin, std::size_t end,
                      RegexScratch& scratch) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::int32_t, const AddedToken*> by_id_;
  Trie raw_;
  Trie normalized_;
  Regex word_character_;
};

}  // namespace kvbench
