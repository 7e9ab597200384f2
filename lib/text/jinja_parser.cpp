// Definitions of jinja_parser.hpp.
#include "text/jinja_parser.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>

#include "core/printable.hpp"
#include "text/jinja_expressions.hpp"

namespace kvbench {
namespace {

using Kind = JinjaStatement::Kind;

class Parser {
 public:
  Parser(std::string_view text, const std::string& source)
      : in_(lex_jinja(text, source), source), source_(source) {}

  JinjaBody whole() {
    std::string end;
    JinjaBody body = block({}, end);
    return body;
  }

 private:
  JinjaBody block(std::initializer_list<std::string_view> ends, std::string& end);
  JinjaStatement statement(const std::string& tag, JinjaPlace place);
  void choice(JinjaStatement& made);
  void loop(JinjaStatement& made);
  void set(JinjaStatement& made);
  void close_tag();

  JinjaExpressions in_;
  const std::string& source_;
};

// Statements up to a tag of `ends`, which is taken, but not what follows its name. Without ends, up
// to the template's end.
JinjaBody Parser::block(std::initializer_list<std::string_view> ends, std::string& end) {
  const JinjaExpressions::Nesting nesting(in_);
  JinjaBody body;
  while (true) {
    JinjaToken token = in_.take();
    JinjaStatement made;
    made.place = token.place;
    if (token.kind == JinjaTokenKind::text) {
      made.text = std::move(token.text);
    } else if (token.kind == JinjaTokenKind::print_begin) {
      made.kind = Kind::print;
      made.expression = in_.conditional();
      if (!in_.is(JinjaTokenKind::print_end)) in_.fail_unexpected("}}");
      in_.take();
    } else if (token.kind == JinjaTokenKind::block_begin) {
      const std::string tag = in_.expect_name();
      if (std::find(ends.begin(), ends.end(), tag) != ends.end()) {
        end = tag;
        return body;
      }
      made = statement(tag, token.place);
    } else {
      if (ends.size() == 0) return body;
      jinja_error(source_, token.place,
                  fmt::format("expected {{% {} %}} before the template's end", *(ends.end() - 1)));
    }
    body.push_back(std::move(made));
  }
}

void Parser::close_tag() {
  if (!in_.is(JinjaTokenKind::block_end)) in_.fail_unexpected("%}");
  in_.take();
}

JinjaStatement Parser::statement(const std::string& tag, JinjaPlace place) {
  JinjaStatement made;
  made.place = place;
  std::string end;
  if (tag == "if") {
    choice(made);
  } else if (tag == "for") {
    loop(made);
  } else if (tag == "set") {
    set(made);
  } else if (tag == "generation") {  // marks what a model is trained on; prints as it is
    made.kind = Kind::group;
    close_tag();
    made.body = block({"endgeneration"}, end);
    close_tag();
  } else {
    jinja_error(
        source_, place,
        fmt::format("{{% {} %}} is not supported (there are if, for and set)", printable(tag)));
  }
  return made;
}

void Parser::choice(JinjaStatement& made) {
  made.kind = Kind::choice;
  std::string end = "if";
  while (end == "if" || end == "elif") {
    JinjaBranch branch;
    branch.condition = in_.conditional();
    close_tag();
    branch.body = block({"elif", "else", "endif"}, end);
    made.branches.push_back(std::move(branch));
  }
  if (end == "else") {
    close_tag();
    made.otherwise = block({"endif"}, end);
  }
  close_tag();
}

void Parser::loop(JinjaStatement& made) {
  made.kind = Kind::loop;
  made.names.push_back(in_.expect_name());
  while (in_.accept_symbol(",")) made.names.push_back(in_.expect_name());
  if (!in_.accept_name("in")) in_.fail_unexpected("'in'");
  made.expression = in_.logical_or();
  if (in_.accept_name("if")) made.condition = in_.logical_or();
  if (in_.is_name("recursive")) in_.fail("a recursive loop is not supported");
  close_tag();
  std::string end;
  made.body = block({"else", "endfor"}, end);
  if (end == "else") {
    close_tag();
    made.otherwise = block({"endfor"}, end);
  }
  close_tag();
}

void Parser::set(JinjaStatement& made) {
  made.names.push_back(in_.expect_name());
  made.of_namespace = in_.accept_symbol(".");
  if (made.of_namespace) {
    made.names.push_back(in_.expect_name());
  } else {
    while (in_.accept_symbol(",")) made.names.push_back(in_.expect_name());
  }
  if (in_.accept_symbol("=")) {
    made.kind = Kind::set;
    made.expression = in_.expression_or_list();
    close_tag();
    return;
  }
  made.kind = Kind::set_block;
  if (made.names.size() > 1) in_.fail_unexpected("'='");
  close_tag();
  std::string end;
  made.body = block({"endset"}, end);
  close_tag();
}

}  // namespace

JinjaBody parse_jinja(std::string_view text, const std::string& source) {
  return Parser(text, source).whole();
}

}  // namespace kvbench
