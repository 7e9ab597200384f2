// Definitions of jinja_expressions.hpp.
#include "text/jinja_expressions.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/printable.hpp"

namespace kvbench {
namespace {

using Kind = JinjaExpr::Kind;

constexpr int kMaxNesting = 100;
constexpr int kMaxDepth = 400;  // chains such as a + b + c nest to the left

std::string shown(const JinjaToken& token) {
  switch (token.kind) {
    case JinjaTokenKind::print_end:
      return "}}";
    case JinjaTokenKind::block_end:
      return "%}";
    case JinjaTokenKind::end:
      return "the template's end";
    default:
      return fmt::format("'{}'", printable(token.text));
  }
}

}  // namespace

JinjaExpressions::Nesting::Nesting(JinjaExpressions& parser) : parser_(parser) {
  if (++parser_.nesting_ > kMaxNesting) parser_.fail("nested too deeply");
}

bool JinjaExpressions::accept_symbol(std::string_view text) {
  const bool there = is_symbol(text);
  if (there) take();
  return there;
}

bool JinjaExpressions::accept_name(std::string_view text) {
  const bool there = is_name(text);
  if (there) take();
  return there;
}

void JinjaExpressions::fail_unexpected(const std::string& wanted) const {
  fail(fmt::format("expected {}, found {}", wanted, shown(token())));
}

void JinjaExpressions::expect_symbol(std::string_view text) {
  if (!accept_symbol(text)) fail_unexpected(fmt::format("'{}'", text));
}

std::string JinjaExpressions::expect_name() {
  if (!is(JinjaTokenKind::name)) fail_unexpected("a name");
  return take().text;
}

void JinjaExpressions::settle_depth(JinjaExpr& expr) const {
  int below = 0;
  for (const JinjaExprPtr& part : expr.parts) below = std::max(below, part ? part->depth : 0);
  for (const auto& [name, part] : expr.named) below = std::max(below, part->depth);
  expr.depth = below + 1;
  if (expr.depth > kMaxDepth) jinja_error(source_, expr.place, "an expression is too long");
}

JinjaExprPtr JinjaExpressions::make(Kind kind, JinjaPlace place, std::string text,
                                    std::initializer_list<JinjaExprPtr*> parts) const {
  auto expr = std::make_unique<JinjaExpr>();
  expr->kind = kind;
  expr->place = place;
  expr->text = std::move(text);
  for (JinjaExprPtr* part : parts) expr->parts.push_back(std::move(*part));
  settle_depth(*expr);
  return expr;
}

JinjaExprPtr JinjaExpressions::expression_or_list() {
  const JinjaPlace place = token().place;
  JinjaExprPtr first = conditional();
  if (!is_symbol(",")) return first;
  JinjaExprPtr list = make(Kind::list, place, "", {&first});
  while (accept_symbol(",")) {
    if (is(JinjaTokenKind::block_end) || is_symbol(")")) break;
    list->parts.push_back(conditional());
  }
  settle_depth(*list);
  return list;
}

JinjaExprPtr JinjaExpressions::conditional() {
  const Nesting nesting(*this);
  JinjaExprPtr value = logical_or();
  while (is_name("if")) {
    const JinjaPlace place = take().place;
    JinjaExprPtr condition = logical_or();
    JinjaExprPtr otherwise;
    if (accept_name("else")) otherwise = conditional();
    value = make(Kind::conditional, place, "", {&value, &condition, &otherwise});
  }
  return value;
}

JinjaExprPtr JinjaExpressions::logical_or() {
  JinjaExprPtr left = logical_and();
  while (is_name("or")) {
    const JinjaPlace place = take().place;
    JinjaExprPtr right = logical_and();
    left = make(Kind::logical_or, place, "", {&left, &right});
  }
  return left;
}

JinjaExprPtr JinjaExpressions::logical_and() {
  JinjaExprPtr left = logical_not();
  while (is_name("and")) {
    const JinjaPlace place = take().place;
    JinjaExprPtr right = logical_not();
    left = make(Kind::logical_and, place, "", {&left, &right});
  }
  return left;
}

JinjaExprPtr JinjaExpressions::logical_not() {
  if (!is_name("not")) return comparison();
  const Nesting nesting(*this);
  const JinjaPlace place = take().place;
  JinjaExprPtr value = logical_not();
  return make(Kind::logical_not, place, "", {&value});
}

JinjaExprPtr JinjaExpressions::comparison() {
  constexpr std::array<std::string_view, 6> kSigns{"==", "!=", "<", "<=", ">", ">="};
  JinjaExprPtr left = sum();
  bool compared = false;
  while (true) {
    const JinjaPlace place = token().place;
    std::string sign;
    if (is(JinjaTokenKind::symbol) &&
        std::find(kSigns.begin(), kSigns.end(), token().text) != kSigns.end()) {
      sign = token().text;
    } else if (is_name("in")) {
      sign = "in";
    } else if (is_name("not") && tokens_[at_ + 1].kind == JinjaTokenKind::name &&
               tokens_[at_ + 1].text == "in") {
      sign = "not in";
      take();
    } else {
      return left;
    }
    if (compared) fail("a chain of comparisons is not supported: use 'and'");
    compared = true;
    take();
    JinjaExprPtr right = sum();
    left = make(Kind::binary, place, sign, {&left, &right});
  }
}

JinjaExprPtr JinjaExpressions::sum() {
  JinjaExprPtr left = joined();
  while (is_symbol("+") || is_symbol("-")) {
    const JinjaToken sign = take();
    JinjaExprPtr right = joined();
    left = make(Kind::binary, sign.place, sign.text, {&left, &right});
  }
  return left;
}

JinjaExprPtr JinjaExpressions::joined() {
  JinjaExprPtr left = product();
  while (is_symbol("~")) {
    const JinjaPlace place = take().place;
    JinjaExprPtr right = product();
    left = make(Kind::binary, place, "~", {&left, &right});
  }
  return left;
}

JinjaExprPtr JinjaExpressions::product() {
  JinjaExprPtr left = signed_value();
  while (is_symbol("*") || is_symbol("/") || is_symbol("//") || is_symbol("%")) {
    const JinjaToken sign = take();
    JinjaExprPtr right = signed_value();
    left = make(Kind::binary, sign.place, sign.text, {&left, &right});
  }
  return left;
}

JinjaExprPtr JinjaExpressions::signed_value() {
  const Nesting nesting(*this);
  if (is_symbol("-")) {
    const JinjaPlace place = take().place;
    JinjaExprPtr value = signed_value();
    return with_filters(make(Kind::negate, place, "", {&value}));
  }
  return with_filters(with_postfix(primary()));
}

JinjaExprPtr JinjaExpressions::primary() {
  const JinjaPlace place = token().place;
  auto literal = [&](JinjaValue value) {
    JinjaExprPtr expr = make(Kind::literal, place, "", {});
    expr->value = std::move(value);
    return expr;
  };
  if (is(JinjaTokenKind::string)) {
    std::string text = take().text;
    while (is(JinjaTokenKind::string)) text += take().text;
    return literal(std::move(text));
  }
  if (is(JinjaTokenKind::integer) || is(JinjaTokenKind::real)) {
    const bool whole = is(JinjaTokenKind::integer);
    const std::string text = token().text;
    std::int64_t integer = 0;
    double real = 0.0;
    const auto fault = whole ? std::from_chars(text.data(), text.data() + text.size(), integer).ec
                             : std::from_chars(text.data(), text.data() + text.size(), real).ec;
    if (fault != std::errc()) fail(fmt::format("the number {} is out of range", printable(text)));
    take();
    return whole ? literal(integer) : literal(real);
  }
  if (accept_symbol("[")) return bracketed(place);
  if (accept_symbol("{")) return braces(place);
  if (accept_symbol("(")) {
    JinjaExprPtr inner = expression_or_list();
    expect_symbol(")");
    return inner;
  }
  if (!is(JinjaTokenKind::name)) fail_unexpected("an expression");
  const std::string name = take().text;
  if (name == "true" || name == "True") return literal(true);
  if (name == "false" || name == "False") return literal(false);
  if (name == "none" || name == "None") return literal(JinjaNone{});
  return make(Kind::name, place, name, {});
}

JinjaExprPtr JinjaExpressions::bracketed(JinjaPlace place) {
  JinjaExprPtr list = make(Kind::list, place, "", {});
  while (!accept_symbol("]")) {
    list->parts.push_back(conditional());
    if (!is_symbol("]")) expect_symbol(",");
  }
  settle_depth(*list);
  return list;
}

JinjaExprPtr JinjaExpressions::braces(JinjaPlace place) {
  JinjaExprPtr dict = make(Kind::dict, place, "", {});
  while (!accept_symbol("}")) {
    dict->parts.push_back(conditional());
    expect_symbol(":");
    dict->parts.push_back(conditional());
    if (!is_symbol("}")) expect_symbol(",");
  }
  settle_depth(*dict);
  return dict;
}

JinjaExprPtr JinjaExpressions::with_postfix(JinjaExprPtr value) {
  while (true) {
    const JinjaPlace place = token().place;
    if (accept_symbol(".")) {
      value = make(Kind::member, place, expect_name(), {&value});
    } else if (accept_symbol("[")) {
      value = subscript(std::move(value));
    } else if (accept_symbol("(")) {
      value = make(Kind::call, place, "", {&value});
      arguments(*value);
    } else {
      return value;
    }
  }
}

// value[index] or value[first:end:step], behind the bracket.
JinjaExprPtr JinjaExpressions::subscript(JinjaExprPtr value) {
  const JinjaPlace place = token().place;
  std::array<JinjaExprPtr, 3> bounds;
  std::size_t colons = 0;
  while (!accept_symbol("]")) {
    if (accept_symbol(":")) {
      if (++colons > 2) fail("a slice has at most two colons");
    } else if (bounds[colons]) {
      fail_unexpected("']'");
    } else {
      bounds[colons] = conditional();
    }
  }
  if (colons > 0) {
    return make(Kind::slice, place, "", {&value, &bounds[0], &bounds[1], &bounds[2]});
  }
  if (!bounds[0]) fail("[] without an index");
  return make(Kind::index, place, "", {&value, &bounds[0]});
}

// Behind the opening bracket.
void JinjaExpressions::arguments(JinjaExpr& call) {
  while (!accept_symbol(")")) {
    const JinjaToken& next = tokens_[std::min(at_ + 1, tokens_.size() - 1)];
    if (is(JinjaTokenKind::name) && next.kind == JinjaTokenKind::symbol && next.text == "=") {
      std::string name = take().text;
      take();
      call.named.emplace_back(std::move(name), conditional());
    } else {
      call.parts.push_back(conditional());
    }
    if (!is_symbol(")")) expect_symbol(",");
  }
  settle_depth(call);
}

JinjaExprPtr JinjaExpressions::with_filters(JinjaExprPtr value) {
  while (true) {
    const JinjaPlace place = token().place;
    if (accept_symbol("|")) {
      value = make(Kind::filter, place, expect_name(), {&value});
      if (accept_symbol("(")) arguments(*value);
    } else if (accept_name("is")) {
      value = test(std::move(value));
    } else if (accept_symbol("(")) {
      value = make(Kind::call, place, "", {&value});
      arguments(*value);
    } else {
      return value;
    }
  }
}

JinjaExprPtr JinjaExpressions::test(JinjaExprPtr value) {
  const JinjaPlace place = token().place;
  const bool inverted = accept_name("not");
  JinjaExprPtr made = make(Kind::test, place, expect_name(), {&value});
  if (accept_symbol("(")) {
    arguments(*made);
  } else if (is(JinjaTokenKind::string) || is(JinjaTokenKind::integer)) {
    made->parts.push_back(primary());  // x is equalto "y"
  }
  return inverted ? make(Kind::logical_not, place, "", {&made}) : std::move(made);
}

}  // namespace kvbench
