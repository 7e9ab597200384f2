// Filters, tests, methods and functions of chat templates, as tables of names, and the budget that
// keeps a template from running or growing without end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_lexer.hpp"
#include "text/jinja_value.hpp"

namespace kvbench {

inline constexpr std::size_t kMostJinjaBytes = 4u << 20;  // of one text

// What a rendering may spend: steps, bytes of one string, items of one list, and their nesting.
class JinjaBudget {
 public:
  explicit JinjaBudget(const std::string& source) : source_(source) {}

  void spend(std::int64_t steps, JinjaPlace place);
  // A value that was just made: DataError where it is too large. Returns it.
  JinjaValue checked(JinjaValue value, JinjaPlace place);
  [[noreturn]] void fail(JinjaPlace place, const std::string& message) const {
    jinja_error(source_, place, message);
  }

 private:
  const std::string& source_;
  std::int64_t steps_ = 0;
};

struct JinjaCall {
  std::string name;
  JinjaValue self;  // what a filter, test or method is applied to
  std::vector<JinjaValue> args;
  std::vector<std::pair<std::string, JinjaValue>> named;
  JinjaPlace place;
  JinjaBudget& budget;

  [[noreturn]] void fail(const std::string& message) const { budget.fail(place, message); }
  // The argument, by place or by name; nullptr where it is left out.
  const JinjaValue* argument(std::size_t index, const std::string& argument_name) const;
  // DataError unless there are so many arguments at most.
  void allow(std::size_t most) const;
  const std::string& self_text() const;
  const std::string& text_argument(std::size_t index, const std::string& argument_name) const;
};

// DataError for an unknown name, and for what the value or the arguments cannot be.
JinjaValue apply_jinja_filter(const JinjaCall& call);
bool apply_jinja_test(const JinjaCall& call);
JinjaValue call_jinja_method(const JinjaCall& call);    // "x".strip(), {...}.items(), ...
JinjaValue call_jinja_function(const JinjaCall& call);  // range(...), namespace(...), ...

// DataError unless the value is a whole number.
std::int64_t integer_argument(const JinjaCall& call, const JinjaValue& value);

// Those that are there without being given: names of functions.
bool is_jinja_function(const std::string& name);

}  // namespace kvbench
