// Definitions of jinja_lexer.hpp.
#include "text/jinja_lexer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "text/utf8.hpp"

namespace kvbench {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_part(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& source) : text_(text), source_(source) {
    if (text_.ends_with('\n')) text_.remove_suffix(1);
  }

  std::vector<JinjaToken> run();

 private:
  void read_text();
  void read_tag();
  void read_comment();
  bool read_tag_end(std::string_view closing, JinjaTokenKind kind);
  void read_token();
  void read_string();
  void read_number();
  void read_symbol();
  void append_escape(std::string& out);
  char32_t hex_digits(std::size_t count);
  void after_tag(bool strip_all, bool drop_newline);
  void add(JinjaTokenKind kind, std::string text, std::size_t at) {
    tokens_.push_back({kind, std::move(text), place_of(at)});
  }
  // Tokens come in order, so lines are counted on from the last place.
  JinjaPlace place_of(std::size_t at);
  [[noreturn]] void fail(std::size_t at, const std::string& message) {
    jinja_error(source_, place_of(at), message);
  }
  bool next_is(std::string_view expected) const { return text_.substr(at_).starts_with(expected); }

  std::string_view text_;
  const std::string& source_;
  std::size_t at_ = 0;
  std::size_t counted_ = 0;
  JinjaPlace place_;
  bool strip_next_text_ = false;
  std::string open_;  // brackets not closed yet, in the tag being read
  std::vector<JinjaToken> tokens_;
};

JinjaPlace Lexer::place_of(std::size_t at) {
  if (at < counted_) {
    counted_ = 0;
    place_ = {};
  }
  for (; counted_ < at; ++counted_) {
    if (text_[counted_] == '\n') {
      ++place_.line;
      place_.column = 1;
    } else {
      ++place_.column;
    }
  }
  return place_;
}

std::vector<JinjaToken> Lexer::run() {
  while (at_ < text_.size()) {
    read_text();
    if (at_ >= text_.size()) break;
    if (next_is("{#")) {
      read_comment();
    } else {
      read_tag();
    }
  }
  add(JinjaTokenKind::end, "", text_.size());
  return std::move(tokens_);
}

// Up to the next tag, less the white space that it takes away.
void Lexer::read_text() {
  const std::size_t begin = at_;
  std::size_t end = begin;
  const auto opens = [&](std::size_t i) {
    return text_[i] == '{' && i + 1 < text_.size() &&
           (text_[i + 1] == '{' || text_[i + 1] == '%' || text_[i + 1] == '#');
  };
  while (end < text_.size() && !opens(end)) ++end;
  std::string_view found = text_.substr(begin, end - begin);
  at_ = end;
  if (strip_next_text_) {
    while (!found.empty() && is_blank(found.front())) found.remove_prefix(1);
  }
  if (end < text_.size()) {
    const char mark = end + 2 < text_.size() ? text_[end + 2] : ' ';
    if (mark == '-') {
      while (!found.empty() && is_blank(found.back())) found.remove_suffix(1);
    } else if (mark != '+' && text_[end + 1] != '{') {
      // lstrip_blocks: blanks between the line's beginning and the tag.
      const std::size_t last = found.find_last_not_of(" \t");
      const bool whole_line = last == std::string_view::npos
                                  ? begin == 0 || text_[begin - 1] == '\n'
                                  : found[last] == '\n';
      if (whole_line) found = found.substr(0, last == std::string_view::npos ? 0 : last + 1);
    }
  }
  strip_next_text_ = false;
  if (!found.empty()) add(JinjaTokenKind::text, std::string(found), begin);
}

// trim_blocks: one newline behind a block or a comment goes.
void Lexer::after_tag(bool strip_all, bool drop_newline) {
  strip_next_text_ = strip_all;
  if (!drop_newline || strip_all) return;
  if (next_is("\r\n"))
    at_ += 2;
  else if (next_is("\n"))
    at_ += 1;
}

void Lexer::read_comment() {
  const std::size_t begin = at_;
  const std::size_t end = text_.find("#}", at_ + 2);
  if (end == std::string_view::npos) fail(begin, "the comment has no end");
  const char mark = end > begin + 2 ? text_[end - 1] : ' ';
  at_ = end + 2;
  after_tag(mark == '-', mark != '+');
}

void Lexer::read_tag() {
  const std::size_t begin = at_;
  const bool prints = next_is("{{");
  add(prints ? JinjaTokenKind::print_begin : JinjaTokenKind::block_begin, "", at_);
  at_ += 2;
  if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
  open_.clear();
  const std::string_view closing = prints ? "}}" : "%}";
  const auto kind = prints ? JinjaTokenKind::print_end : JinjaTokenKind::block_end;
  while (true) {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    if (at_ >= text_.size()) fail(begin, "the tag has no end");
    if (open_.empty() && read_tag_end(closing, kind)) return;
    read_token();
  }
}

bool Lexer::read_tag_end(std::string_view closing, JinjaTokenKind kind) {
  const char mark = text_[at_];
  const bool marked = mark == '-' || mark == '+';
  if (!text_.substr(at_ + (marked ? 1 : 0)).starts_with(closing)) return false;
  add(kind, "", at_);
  at_ += closing.size() + (marked ? 1 : 0);
  after_tag(mark == '-', mark != '+' && kind == JinjaTokenKind::block_end);
  return true;
}

void Lexer::read_token() {
  const char c = text_[at_];
  if (c == '\'' || c == '"') return read_string();
  if (is_digit(c)) return read_number();
  if (!is_name_part(c)) return read_symbol();
  std::size_t end = at_;
  while (end < text_.size() && is_name_part(text_[end])) ++end;
  add(JinjaTokenKind::name, std::string(text_.substr(at_, end - at_)), at_);
  at_ = end;
}

void Lexer::read_number() {
  std::size_t end = at_;
  while (end < text_.size() && is_digit(text_[end])) ++end;
  const bool real = end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1]);
  if (real) {
    ++end;
    while (end < text_.size() && is_digit(text_[end])) ++end;
  }
  if (end < text_.size() && is_name_part(text_[end])) {
    fail(at_, fmt::format("a number is followed by '{}'", printable(text_.substr(end, 1))));
  }
  add(real ? JinjaTokenKind::real : JinjaTokenKind::integer,
      std::string(text_.substr(at_, end - at_)), at_);
  at_ = end;
}

void Lexer::read_string() {
  const std::size_t begin = at_;
  const char quote = text_[at_++];
  std::string content;
  while (true) {
    if (at_ >= text_.size()) fail(begin, "the string has no end");
    const char c = text_[at_++];
    if (c == quote) break;
    if (c == '\\') {
      if (at_ >= text_.size()) fail(begin, "the string has no end");
      append_escape(content);
    } else {
      content += c;
    }
  }
  add(JinjaTokenKind::string, std::move(content), begin);
}

// Behind the backslash; Python's rules.
void Lexer::append_escape(std::string& out) {
  constexpr std::string_view kNames = "nrtfvab\\'\"0";
  constexpr std::string_view kMeanings("\n\r\t\f\v\a\b\\'\"\0", 11);
  const char c = text_[at_++];
  if (const std::size_t known = kNames.find(c); known != std::string_view::npos) {
    out += kMeanings[known];
  } else if (c == 'x') {
    append_utf8(hex_digits(2), out);
  } else if (c == 'u') {
    append_utf8(hex_digits(4), out);
  } else if (c == '\n') {
    // A line break that Python's strings leave out, too.
  } else {
    out += '\\';
    out += c;
  }
}

char32_t Lexer::hex_digits(std::size_t count) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  char32_t code = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const char c = at_ < text_.size() ? text_[at_] : ' ';
    const auto value = kDigits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
    if (value == std::string_view::npos) fail(at_, "an escape lacks hexadecimal digits");
    code = code * 16 + static_cast<char32_t>(value);
    ++at_;
  }
  if (code >= 0xD800 && code <= 0xDFFF) fail(at_, "an escape is half of a character");
  return code;
}

void Lexer::read_symbol() {
  constexpr std::array<std::string_view, 6> kPairs{"==", "!=", "<=", ">=", "//", "**"};
  std::string_view symbol = text_.substr(at_, 1);
  for (const std::string_view pair : kPairs) {
    if (next_is(pair)) symbol = pair;
  }
  constexpr std::string_view kKnown = "()[]{}.,:|~+-*/%<>=!";
  if (kKnown.find(symbol.front()) == std::string_view::npos || symbol == "!") {
    fail(at_, fmt::format("'{}' is no part of an expression", printable(symbol)));
  }
  const char c = symbol.front();
  if (c == '(' || c == '[' || c == '{') open_ += c;
  if (c == ')' || c == ']' || c == '}') {
    const char opening = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (open_.empty() || open_.back() != opening) {
      fail(at_, fmt::format("'{}' closes nothing", c));
    }
    open_.pop_back();
  }
  add(JinjaTokenKind::symbol, std::string(symbol), at_);
  at_ += symbol.size();
}

}  // namespace

void jinja_error(const std::string& source, JinjaPlace place, const std::string& message) {
  data_error("{}: line {}, column {}: {}", source, place.line, place.column, message);
}

std::vector<JinjaToken> lex_jinja(std::string_view text, const std::string& source) {
  return Lexer(text, source).run();
}

}  // namespace kvbench
