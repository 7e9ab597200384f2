// Splits a chat template into text and the tokens of its tags, with Jinja's white-space rules as
// chat templates are read: trim_blocks and lstrip_blocks are on, "-" and "+" beside a tag count,
// one newline at the template's end is dropped, comments are gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvbench {

// Where in the template a message points to.
struct JinjaPlace {
  std::int32_t line = 1;
  std::int32_t column = 1;  // in bytes
};

enum class JinjaTokenKind : std::uint8_t {
  text,         // between tags
  print_begin,  // {{
  print_end,    // }}
  block_begin,  // {%
  block_end,    // %}
  name,
  string,  // its content
  integer,
  real,
  symbol,  // ( ) [ ] { } . , : | ~ + - * / // % == != < <= > >= =
  end
};

struct JinjaToken {
  JinjaTokenKind kind = JinjaTokenKind::end;
  std::string text;
  JinjaPlace place;
};

// DataError: "<source>: line L, column C: ...", the source being a file and a key.
[[noreturn]] void jinja_error(const std::string& source, JinjaPlace place,
                              const std::string& message);

// Tokens, the last of kind `end`. DataError names the place.
std::vector<JinjaToken> lex_jinja(std::string_view text, const std::string& source);

}  // namespace kvbench
