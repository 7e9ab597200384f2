// Regular expressions of tokenizer.json on PCRE2 with its just-in-time compiler. The patterns are
// written for Oniguruma, the engine of the reference library: what means something else in PCRE2
// is rewritten, and what cannot be rewritten is refused (see regex_syntax.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvbench {

// Working memory of matching: its stack is on the heap, so that a run of a million characters
// needs none of the thread's. One per thread.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

// A part of a text: a match, or what lies between two.
struct RegexSpan {
  std::size_t begin;
  std::size_t end;
  bool is_match;
};

// Read-only after construction.
class Regex {
 public:
  // `where` names file and key in errors (DataError).
  static Regex pattern(std::string_view oniguruma_pattern, const std::string& where);
  static Regex literal(std::string_view text, const std::string& where);

  // Replaces `spans` by matches and gaps that cover `text` (valid UTF-8) without overlap.
  // DataError when the matcher runs into its limits.
  void find_all(std::string_view text, RegexScratch& scratch, std::vector<RegexSpan>& spans) const;
  // Whether it matches at the start of `text`.
  bool matches_at_start(std::string_view text, RegexScratch& scratch) const;

 private:
  struct Code;
  Regex(std::string_view pcre2_pattern, unsigned options, const std::string& where);
  bool match(std::string_view text, std::size_t from, RegexScratch& scratch, std::size_t& begin,
             std::size_t& end) const;

  std::shared_ptr<const Code> code_;
  std::string where_;
};

}  // namespace kvbench
