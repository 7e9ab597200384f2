// Leftmost-longest search for added tokens and their flags.
#include "text/added_tokens.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/json_reader.hpp"
#include "text/utf8.hpp"

namespace kvbench {
namespace {

// Where the white space at the end of `text` begins.
std::size_t trailing_space_begin(std::string_view text) {
  while (!text.empty()) {
    const std::size_t at = last_character(text);
    if (!is_white_space(utf8_step(text.substr(at)).code_point)) break;
    text = text.substr(0, at);
  }
  return text.size();
}

// Bytes of white space at the start of `text`.
std::size_t leading_space_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = utf8_step(text.substr(at));
    if (!is_white_space(step.code_point)) break;
    at += step.byte_count;
  }
  return at;
}

}  // namespace

AddedToken read_added_token(const nlohmann::json& entry, std::int32_t id,
                            const std::string& where) {
  const JsonReader reader(entry, where, JsonErrors::data, NullRule::as_absent);
  AddedToken token;
  token.id = id;
  token.content = reader.require_string("content");
  if (token.content.empty()) data_error("{}: added token {}: content is empty", where, id);
  token.single_word = reader.optional_bool("single_word").value_or(false);
  token.lstrip = reader.optional_bool("lstrip").value_or(false);
  token.rstrip = reader.optional_bool("rstrip").value_or(false);
  token.normalized = reader.optional_bool("normalized").value_or(false);
  token.special = reader.optional_bool("special").value_or(false);
  return token;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalize& normalize)
    : tokens_(std::move(tokens)),
      // What Rust's \w is: Oniguruma's, and the two joiners.
      word_character_(Regex::pattern("[\\w\\x{200c}\\x{200d}]", "added tokens")) {
  for (const AddedToken& token : tokens_) {
    by_id_.emplace(token.id, &token);
    if (token.normalized) {
      normalized_.insert(normalize(token.content), &token);
    } else {
      raw_.insert(token.content, &token);
    }
  }
}

void AddedTokens::Trie::insert(std::string_view text, const AddedToken* token) {
  if (text.empty()) return;
  starts[static_cast<unsigned char>(text[0])] = true;
  std::uint32_t node = 0;
  for (const char c : text) {
    const std::uint64_t key = (std::uint64_t{node} << 8) | static_cast<unsigned char>(c);
    const auto [child, added] = children.emplace(key, static_cast<std::uint32_t>(ends.size()));
    if (added) ends.push_back(nullptr);
    node = child->second;
  }
  if (ends[node] == nullptr) ends[node] = token;
}

const AddedToken* AddedTokens::Trie::longest(std::string_view text, std::size_t at,
                                             std::size_t& end) const {
  const AddedToken* found = nullptr;
  std::uint32_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const std::uint64_t key = (std::uint64_t{node} << 8) | static_cast<unsigned char>(text[i]);
    const auto child = children.find(key);
    if (child == children.end()) break;
    node = child->second;
    if (ends[node] != nullptr) {
      found = ends[node];
      end = i + 1;
    }
  }
  return found;
}

std::vector<TokenSpan> AddedTokens::split_raw(std::string_view text, bool skip_special,
                                              RegexScratch& scratch) const {
  return split(raw_, text, skip_special, scratch);
}

std::vector<TokenSpan> AddedTokens::split_normalized(std::string_view text, bool skip_special,
                                                     RegexScratch& scratch) const {
  return split(normalized_, text, skip_special, scratch);
}

// A match that is not taken (special, not a single word) still hides what overlaps it, and white
// space that a token has taken may be taken again by a token made of it: so does the reference.
std::vector<TokenSpan> AddedTokens::split(const Trie& trie, std::string_view text,
                                          bool skip_special, RegexScratch& scratch) const {
  std::vector<TokenSpan> spans;
  std::size_t covered = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t begin = at;
    std::size_t end = 0;
    const bool possible = trie.starts[static_cast<unsigned char>(text[at])];
    const AddedToken* token = possible ? trie.longest(text, at, end) : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    at = end;
    if (skip_special && token->special) continue;
    if (token->single_word && !is_single_word(text, begin, end, scratch)) continue;
    if (token->rstrip) end += leading_space_bytes(text.substr(end));
    if (token->lstrip) {
      const std::size_t gap = begin > covered ? begin - covered : 0;
      begin = covered + trailing_space_begin(text.substr(covered, gap));
      if (begin >= end) continue;  // nothing is left of it
    }
    if (covered < begin) spans.push_back({covered, begin, std::nullopt});
    spans.push_back({begin, end, token->id});
    covered = end;
  }
  if (covered < text.size()) spans.push_back({covered, text.size(), std::nullopt});
  return spans;
}

bool AddedTokens::is_single_word(std::string_view text, std::size_t begin, std::size_t end,
                                 RegexScratch& scratch) const {
  const auto is_word = [&](std::size_t at) {
    const std::size_t bytes = utf8_step(text.substr(at)).byte_count;
    return word_character_.matches_at_start(text.substr(at, bytes), scratch);
  };
  if (begin > 0 && is_word(last_character(text.substr(0, begin)))) return false;
  return end == text.size() || !is_word(end);
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = std::find_if(tokens_.begin(), tokens_.end(), [&](const AddedToken& token) {
    return token.content == content;
  });
  return found == tokens_.end() ? nullptr : &*found;
}

bool AddedTokens::is_special(std::int32_t id) const {
  const AddedToken* token = find(id);
  return token != nullptr && token->special;
}

}  // namespace kvbench
