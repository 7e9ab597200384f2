// Definitions of jinja_evaluator.hpp.
#include "text/jinja_evaluator.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/printable.hpp"
#include "text/jinja_strings.hpp"

namespace kvbench {

using Kind = JinjaExpr::Kind;

std::string JinjaEvaluator::printed(const JinjaExpr& expr, const JinjaValue& shown) const {
  std::string out;
  if (!print(shown, out)) {
    fail(expr, fmt::format("printing {} is not supported (use tojson)", shown.kind()));
  }
  return out;
}

// Lists and dictionaries hold no namespaces, so that nothing can contain itself.
const JinjaValue& JinjaEvaluator::storable(const JinjaExpr& expr, const JinjaValue& held) const {
  if (held.names() != nullptr) fail(expr, "a namespace inside a list is not supported");
  return held;
}

JinjaValue JinjaEvaluator::value(const JinjaExpr& expr) {
  budget_.spend(1, expr.place);
  switch (expr.kind) {
    case Kind::literal:
      return expr.value;
    case Kind::name:
      return name(expr);
    case Kind::list: {
      JinjaList list;
      for (const JinjaExprPtr& part : expr.parts) list.push_back(storable(*part, value(*part)));
      return budget_.checked(std::move(list), expr.place);
    }
    case Kind::dict:
      return dictionary(expr);
    case Kind::member:
      return member(expr);
    case Kind::index:
      return element(expr);
    case Kind::slice:
      return slice(expr);
    case Kind::call:
      return call(expr);
    case Kind::filter:
      return apply_jinja_filter(prepare(expr, expr.text, value(*expr.parts[0])));
    case Kind::test:
      return apply_jinja_test(prepare(expr, expr.text, value(*expr.parts[0])));
    case Kind::logical_not:
      return !value(*expr.parts[0]).truth();
    case Kind::logical_and: {  // the value of one side, as in Python
      JinjaValue left = value(*expr.parts[0]);
      return left.truth() ? value(*expr.parts[1]) : left;
    }
    case Kind::logical_or: {
      JinjaValue left = value(*expr.parts[0]);
      return left.truth() ? left : value(*expr.parts[1]);
    }
    case Kind::conditional:
      if (value(*expr.parts[1]).truth()) return value(*expr.parts[0]);
      return expr.parts[2] ? value(*expr.parts[2]) : JinjaValue();
    case Kind::negate: {
      const JinjaValue zero(std::int64_t{0});
      return arithmetic(expr, zero, value(*expr.parts[0]));
    }
    case Kind::binary:
      return binary(expr);
  }
  return {};
}

JinjaValue JinjaEvaluator::name(const JinjaExpr& expr) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const JinjaValue* found = find_member(*scope, expr.text)) return *found;
  }
  if (is_jinja_function(expr.text)) return JinjaFunction{expr.text};
  return {};
}

JinjaValue JinjaEvaluator::dictionary(const JinjaExpr& expr) {
  JinjaDict dict;
  for (std::size_t i = 0; i < expr.parts.size(); i += 2) {
    const JinjaValue key = value(*expr.parts[i]);
    if (key.text() == nullptr) fail(*expr.parts[i], "a key that is no string");
    const JinjaExpr& held = *expr.parts[i + 1];
    set_member(dict, *key.text(), storable(held, value(held)));
  }
  return budget_.checked(std::move(dict), expr.place);
}

JinjaValue JinjaEvaluator::member(const JinjaExpr& expr) {
  const JinjaValue of = value(*expr.parts[0]);
  if (of.is_undefined()) {
    fail(expr, fmt::format("'{}' of something undefined", printable(expr.text)));
  }
  const JinjaDict* members = of.names() != nullptr ? of.names() : of.dict();
  const JinjaValue* found = members == nullptr ? nullptr : find_member(*members, expr.text);
  return found == nullptr ? JinjaValue() : *found;
}

JinjaValue JinjaEvaluator::element(const JinjaExpr& expr) {
  const JinjaValue of = value(*expr.parts[0]);
  const JinjaValue key = value(*expr.parts[1]);
  if (of.is_undefined()) fail(expr, "an element of something undefined");
  const JinjaDict* members = of.names() != nullptr ? of.names() : of.dict();
  if (members != nullptr && key.text() != nullptr) {
    const JinjaValue* found = find_member(*members, *key.text());
    return found == nullptr ? JinjaValue() : *found;
  }
  std::int64_t index = 0;
  if (!key.integer(index)) return {};
  std::vector<std::string_view> letters;
  if (of.text() != nullptr) {
    budget_.spend(std::ssize(*of.text()), expr.place);
    letters = characters(*of.text());
  }
  const std::int64_t size = of.list() != nullptr ? std::ssize(*of.list()) : std::ssize(letters);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return {};
  const auto at = static_cast<std::size_t>(index);
  return of.list() != nullptr ? (*of.list())[at] : JinjaValue(std::string(letters[at]));
}

std::optional<std::int64_t> JinjaEvaluator::bound(const JinjaExprPtr& expr) {
  if (expr == nullptr) return std::nullopt;
  const JinjaValue given = value(*expr);
  std::int64_t index = 0;
  if (given.is_none()) return std::nullopt;
  if (!given.integer(index)) fail(*expr, fmt::format("a slice by {}", given.kind()));
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  return std::clamp(index, -kFar, kFar);
}

JinjaValue JinjaEvaluator::slice(const JinjaExpr& expr) {
  const JinjaValue of = value(*expr.parts[0]);
  const auto first = bound(expr.parts[1]);
  const auto end = bound(expr.parts[2]);
  const std::int64_t step = bound(expr.parts[3]).value_or(1);
  if (step == 0) fail(expr, "a slice with step 0");
  if (const JinjaList* list = of.list()) {
    JinjaList part;
    for (const std::int64_t i : slice_indices(std::ssize(*list), first, end, step)) {
      part.push_back((*list)[static_cast<std::size_t>(i)]);
    }
    return budget_.checked(std::move(part), expr.place);
  }
  if (of.text() == nullptr) fail(expr, fmt::format("a slice of {}", of.kind()));
  budget_.spend(std::ssize(*of.text()), expr.place);
  const auto letters = characters(*of.text());
  std::string part;
  for (const std::int64_t i : slice_indices(std::ssize(letters), first, end, step)) {
    part += letters[static_cast<std::size_t>(i)];
  }
  return part;
}

JinjaCall JinjaEvaluator::prepare(const JinjaExpr& expr, std::string called, JinjaValue self) {
  JinjaCall made{std::move(called), std::move(self), {}, {}, expr.place, budget_};
  for (std::size_t i = 1; i < expr.parts.size(); ++i) {
    made.args.push_back(storable(*expr.parts[i], value(*expr.parts[i])));
  }
  for (const auto& [argument, given] : expr.named) {
    made.named.emplace_back(argument, storable(*given, value(*given)));
  }
  return made;
}

JinjaValue JinjaEvaluator::call(const JinjaExpr& expr) {
  const JinjaExpr& callee = *expr.parts[0];
  if (callee.kind == Kind::member) {
    return call_jinja_method(prepare(expr, callee.text, value(*callee.parts[0])));
  }
  const JinjaValue function = value(callee);
  const auto* known = function.as<JinjaFunction>();
  if (known == nullptr) {
    const std::string called =
        callee.kind == Kind::name ? fmt::format("'{}'", printable(callee.text)) : function.kind();
    fail(expr,
         fmt::format("{} cannot be called: the functions are range, namespace, raise_exception",
                     called));
  }
  return call_jinja_function(prepare(expr, known->name, {}));
}

JinjaValue JinjaEvaluator::binary(const JinjaExpr& expr) {
  const JinjaValue left = value(*expr.parts[0]);
  const JinjaValue right = value(*expr.parts[1]);
  const std::string& sign = expr.text;
  if (sign == "in") return contains(expr, left, right);
  if (sign == "not in") return !contains(expr, left, right);
  if (sign == "~") {
    std::string text = printed(*expr.parts[0], left);
    return budget_.checked(text += printed(*expr.parts[1], right), expr.place);
  }
  if (sign == "==" || sign == "!=") {
    bool same = false;
    if (!compare_equal(left, right, same)) fail(expr, "comparing lists is not supported");
    return same == (sign == "==");
  }
  if (sign.front() == '<' || sign.front() == '>') return ordered(expr, left, right);
  return arithmetic(expr, left, right);
}

bool JinjaEvaluator::ordered(const JinjaExpr& expr, const JinjaValue& left,
                             const JinjaValue& right) const {
  double a = 0.0;
  double b = 0.0;
  if (left.text() != nullptr && right.text() != nullptr) {
    a = static_cast<double>(left.text()->compare(*right.text()));
  } else if (!left.number(a) || !right.number(b)) {
    fail(expr, fmt::format("'{}' between {} and {}", expr.text, left.kind(), right.kind()));
  }
  if (expr.text == "<") return a < b;
  if (expr.text == "<=") return a <= b;
  return expr.text == ">" ? a > b : a >= b;
}

bool JinjaEvaluator::contains(const JinjaExpr& expr, const JinjaValue& item,
                              const JinjaValue& container) const {
  if (container.text() != nullptr && item.text() != nullptr) {
    return container.text()->find(*item.text()) != std::string::npos;
  }
  const JinjaDict* members = container.dict();
  if (members != nullptr && item.text() != nullptr) {
    return find_member(*members, *item.text()) != nullptr;
  }
  if (container.is_undefined()) return false;
  const JinjaList* list = container.list();
  if (list == nullptr) fail(expr, fmt::format("'in' {}", container.kind()));
  for (const JinjaValue& held : *list) {
    bool same = false;
    if (!compare_equal(item, held, same)) fail(expr, "comparing lists is not supported");
    if (same) return true;
  }
  return false;
}

// Python's rules: "/" gives a real number, "//" and "%" round down.
JinjaValue JinjaEvaluator::arithmetic(const JinjaExpr& expr, const JinjaValue& left,
                                      const JinjaValue& right) {
  const char sign = expr.kind == Kind::negate ? '-' : expr.text.front();
  if (sign == '+' && left.text() != nullptr && right.text() != nullptr) {
    return budget_.checked(*left.text() + *right.text(), expr.place);
  }
  if (sign == '+' && left.list() != nullptr && right.list() != nullptr) {
    JinjaList list = *left.list();
    list.insert(list.end(), right.list()->begin(), right.list()->end());
    return budget_.checked(std::move(list), expr.place);
  }
  std::int64_t a = 0;
  std::int64_t b = 0;
  if (left.integer(a) && right.integer(b) && expr.text != "/") {
    std::int64_t result = 0;
    bool fits = true;
    if (sign == '+') fits = !__builtin_add_overflow(a, b, &result);
    if (sign == '-') fits = !__builtin_sub_overflow(a, b, &result);
    if (sign == '*') fits = !__builtin_mul_overflow(a, b, &result);
    if (sign == '/' || sign == '%') {
      if (b == 0) fail(expr, "a division by zero");
      fits = b != -1 || a != std::numeric_limits<std::int64_t>::min();
      if (fits) {
        const std::int64_t rest = a % b;
        const bool down = rest != 0 && (rest < 0) != (b < 0);
        result = sign == '%' ? rest + (down ? b : 0) : a / b - (down ? 1 : 0);
      }
    }
    if (!fits) fail(expr, "a number is out of range");
    return result;
  }
  double x = 0.0;
  double y = 0.0;
  if (!left.number(x) || !right.number(y)) {
    fail(expr, fmt::format("'{}' between {} and {}", sign, left.kind(), right.kind()));
  }
  if (sign == '+') return x + y;
  if (sign == '-') return x - y;
  if (sign == '*') return x * y;
  if (y == 0.0) fail(expr, "a division by zero");
  if (sign == '%') return x - std::floor(x / y) * y;
  return expr.text == "//" ? std::floor(x / y) : x / y;
}

}  // namespace kvbench
