// The expressions of a chat template, by precedence climbing as in Jinja: conditional, or, and,
// not, comparisons, + and -, ~, * and its kin, signs, then members, calls, filters and tests.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_tree.hpp"

namespace kvbench {

class JinjaExpressions {
 public:
  // `source` must outlive it.
  JinjaExpressions(std::vector<JinjaToken> tokens, const std::string& source)
      : tokens_(std::move(tokens)), source_(source) {}

  // A whole expression, conditional included.
  JinjaExprPtr conditional();
  // One without "x if y": what a loop runs over, before its own "if".
  JinjaExprPtr logical_or();
  // An expression, or several with commas between them, which are a list.
  JinjaExprPtr expression_or_list();

  const JinjaToken& token() const { return tokens_[at_]; }
  JinjaToken take() { return std::move(tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]); }
  bool is(JinjaTokenKind kind) const { return token().kind == kind; }
  bool is_symbol(std::string_view text) const {
    return is(JinjaTokenKind::symbol) && token().text == text;
  }
  bool is_name(std::string_view text) const {
    return is(JinjaTokenKind::name) && token().text == text;
  }
  bool accept_symbol(std::string_view text);
  bool accept_name(std::string_view text);
  void expect_symbol(std::string_view text);
  std::string expect_name();
  [[noreturn]] void fail(const std::string& message) const {
    jinja_error(source_, token().place, message);
  }
  [[noreturn]] void fail_unexpected(const std::string& wanted) const;
  // Guards against nesting that would overrun the stack.
  class Nesting {
   public:
    explicit Nesting(JinjaExpressions& parser);
    ~Nesting() { --parser_.nesting_; }
    Nesting(const Nesting&) = delete;

   private:
    JinjaExpressions& parser_;
  };

 private:
  JinjaExprPtr make(JinjaExpr::Kind kind, JinjaPlace place, std::string text,
                    std::initializer_list<JinjaExprPtr*> parts) const;
  void settle_depth(JinjaExpr& expr) const;
  JinjaExprPtr logical_and();
  JinjaExprPtr logical_not();
  JinjaExprPtr comparison();
  JinjaExprPtr sum();
  JinjaExprPtr joined();
  JinjaExprPtr product();
  JinjaExprPtr signed_value();
  JinjaExprPtr primary();
  JinjaExprPtr bracketed(JinjaPlace place);
  JinjaExprPtr braces(JinjaPlace place);
  JinjaExprPtr with_postfix(JinjaExprPtr value);
  JinjaExprPtr with_filters(JinjaExprPtr value);
  JinjaExprPtr subscript(JinjaExprPtr value);
  JinjaExprPtr test(JinjaExprPtr value);
  void arguments(JinjaExpr& call);

  std::vector<JinjaToken> tokens_;
  const std::string& source_;
  std::size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace kvbench
