// Values of a chat template's expressions, and the names that they are made from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "text/jinja_calls.hpp"
#include "text/jinja_tree.hpp"

namespace kvbench {

class JinjaEvaluator {
 public:
  JinjaEvaluator(const JinjaDict& given, const std::string& source)
      : budget_(source), scopes_{given} {}

  // DataError names the place.
  JinjaValue value(const JinjaExpr& expr);
  // As {{ expr }} shows it. DataError where that is not supported.
  std::string printed(const JinjaExpr& expr, const JinjaValue& value) const;

  JinjaBudget& budget() { return budget_; }
  std::vector<JinjaDict>& scopes() { return scopes_; }

 private:
  JinjaValue name(const JinjaExpr& expr) const;
  JinjaValue dictionary(const JinjaExpr& expr);
  JinjaValue member(const JinjaExpr& expr);
  JinjaValue element(const JinjaExpr& expr);
  JinjaValue slice(const JinjaExpr& expr);
  JinjaValue call(const JinjaExpr& expr);
  JinjaValue binary(const JinjaExpr& expr);
  JinjaValue arithmetic(const JinjaExpr& expr, const JinjaValue& left, const JinjaValue& right);
  bool ordered(const JinjaExpr& expr, const JinjaValue& left, const JinjaValue& right) const;
  bool contains(const JinjaExpr& expr, const JinjaValue& item, const JinjaValue& container) const;
  std::optional<std::int64_t> bound(const JinjaExprPtr& expr);
  JinjaCall prepare(const JinjaExpr& expr, std::string name, JinjaValue self);
  const JinjaValue& storable(const JinjaExpr& expr, const JinjaValue& value) const;
  [[noreturn]] void fail(const JinjaExpr& expr, const std::string& message) const {
    budget_.fail(expr.place, message);
  }

  JinjaBudget budget_;
  std::vector<JinjaDict> scopes_;  // the innermost last
};

}  // namespace kvbench
