// A chat template after parsing: statements and expressions, each with its place for messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_lexer.hpp"
#include "text/jinja_value.hpp"

namespace kvbench {

struct JinjaExpr;
using JinjaExprPtr = std::unique_ptr<JinjaExpr>;

struct JinjaExpr {
  enum class Kind : std::uint8_t {
    literal,      // value
    name,         // text
    list,         // parts
    dict,         // parts: key, value, key, value, ...
    member,       // parts[0].text
    index,        // parts[0][parts[1]]
    slice,        // parts[0][parts[1]:parts[2]:parts[3]]; null where left out
    call,         // parts[0](parts[1], ..., named)
    filter,       // parts[0] | text(parts[1], ..., named)
    test,         // parts[0] is text(parts[1], ...)
    negate,       // -parts[0]
    logical_not,  // not parts[0]
    logical_and,
    logical_or,
    binary,      // parts[0] text parts[1]: arithmetic, comparison, "in", "~"
    conditional  // parts[1] ? parts[0] : parts[2]; null: undefined
  };
  Kind kind = Kind::literal;
  JinjaPlace place;
  std::string text;
  JinjaValue value;
  std::vector<JinjaExprPtr> parts;
  std::vector<std::pair<std::string, JinjaExprPtr>> named;
  int depth = 1;  // of the tree below, itself counted
};

struct JinjaStatement;
using JinjaBody = std::vector<JinjaStatement>;

struct JinjaBranch {
  JinjaExprPtr condition;
  JinjaBody body;
};

struct JinjaStatement {
  enum class Kind : std::uint8_t {
    text,       // text as it is
    print,      // {{ expression }}
    choice,     // if, elif, ...: branches; else: otherwise
    loop,       // for names in expression if condition: body; else: otherwise
    set,        // set names = expression, or names[0].names[1] = expression for a namespace
    set_block,  // set names[0]: body
    group       // generation: body
  };
  Kind kind = Kind::text;
  JinjaPlace place;
  std::string text;
  std::vector<std::string> names;
  bool of_namespace = false;
  JinjaExprPtr expression;
  JinjaExprPtr condition;
  std::vector<JinjaBranch> branches;
  JinjaBody body;
  JinjaBody otherwise;
};

}  // namespace kvbench
