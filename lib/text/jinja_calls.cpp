// The budget, functions and tests; filters and methods are in jinja_filters.cpp.
#include "text/jinja_calls.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/printable.hpp"
#include "text/jinja_rows.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kMostSteps = 1'000'000;
constexpr std::size_t kMostItems = 100'000;
constexpr int kMostNesting = 64;

JinjaValue range_of(const JinjaCall& call) {
  call.allow(3);
  if (call.args.empty()) call.fail("range needs an argument");
  const std::int64_t first = call.args.size() > 1 ? integer_argument(call, call.args[0]) : 0;
  const std::int64_t end = integer_argument(call, call.args[call.args.size() > 1 ? 1 : 0]);
  const std::int64_t step = call.args.size() > 2 ? integer_argument(call, call.args[2]) : 1;
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  for (const std::int64_t bound : {first, end, step}) {
    if (std::abs(std::max(bound, -kMost - 1)) > kMost) call.fail("a range out of bounds");
  }
  if (step == 0) call.fail("a range with step 0");
  JinjaList list;
  for (std::int64_t i = first; step > 0 ? i < end : i > end; i += step) {
    if (list.size() >= kMostItems) call.fail("a range of too many numbers");
    list.emplace_back(i);
  }
  return list;
}

JinjaValue namespace_of(const JinjaCall& call) {
  call.allow(0);
  JinjaDict members;
  for (const auto& [name, value] : call.named) set_member(members, name, value);
  return JinjaNamespace{std::make_shared<JinjaDict>(std::move(members))};
}

JinjaValue raise(const JinjaCall& call) {
  call.fail(fmt::format("the template refuses: {}", printable(call.text_argument(0, "message"))));
}

constexpr std::array kFunctions{
    JinjaRow{"range", range_of},
    JinjaRow{"namespace", namespace_of},
    JinjaRow{"raise_exception", raise},
};

struct TestRow {
  std::string_view name;
  bool (*holds)(const JinjaCall& call);
};

bool is_number(const JinjaValue& value) {
  return value.as<std::int64_t>() != nullptr || value.as<double>() != nullptr;
}

bool is_truth(const JinjaValue& value, bool truth) {
  const bool* given = value.as<bool>();
  return given != nullptr && *given == truth;
}

bool equal_to(const JinjaCall& call) {
  bool result = false;
  const JinjaValue* other = call.argument(0, "other");
  if (other == nullptr) call.fail("the test needs a value to compare with");
  if (!compare_equal(call.self, *other, result)) call.fail("comparing lists is not supported");
  return result;
}

constexpr std::array kTests{
    TestRow{"defined", [](const JinjaCall& c) { return !c.self.is_undefined(); }},
    TestRow{"undefined", [](const JinjaCall& c) { return c.self.is_undefined(); }},
    TestRow{"none", [](const JinjaCall& c) { return c.self.is_none(); }},
    TestRow{"string", [](const JinjaCall& c) { return c.self.text() != nullptr; }},
    TestRow{"mapping", [](const JinjaCall& c) { return c.self.dict() != nullptr; }},
    TestRow{"number", [](const JinjaCall& c) { return is_number(c.self); }},
    TestRow{"integer", [](const JinjaCall& c) { return c.self.as<std::int64_t>() != nullptr; }},
    TestRow{"boolean", [](const JinjaCall& c) { return c.self.as<bool>() != nullptr; }},
    TestRow{"true", [](const JinjaCall& c) { return is_truth(c.self, true); }},
    TestRow{"false", [](const JinjaCall& c) { return is_truth(c.self, false); }},
    TestRow{"sequence",
            [](const JinjaCall& c) { return c.self.list() || c.self.text() || c.self.dict(); }},
    TestRow{"iterable",
            [](const JinjaCall& c) { return c.self.list() || c.self.text() || c.self.dict(); }},
    TestRow{"odd", [](const JinjaCall& c) { return integer_argument(c, c.self) % 2 != 0; }},
    TestRow{"even", [](const JinjaCall& c) { return integer_argument(c, c.self) % 2 == 0; }},
    TestRow{"equalto", equal_to},
    TestRow{"eq", equal_to},
};

}  // namespace

void JinjaBudget::spend(std::int64_t steps, JinjaPlace place) {
  steps_ += steps;
  if (steps_ > kMostSteps) fail(place, "the template runs too long");
}

JinjaValue JinjaBudget::checked(JinjaValue value, JinjaPlace place) {
  std::size_t items = 0;
  if (const std::string* text = value.text()) {
    if (text->size() > kMostJinjaBytes) fail(place, "a text grows too large");
    spend(static_cast<std::int64_t>(text->size() / 16), place);
  }
  if (const JinjaList* list = value.list()) items = list->size();
  if (const JinjaDict* dict = value.dict()) items = dict->size();
  if (items > kMostItems) fail(place, "a list grows too long");
  if (value.depth() > kMostNesting) fail(place, "lists nest too deeply");
  spend(static_cast<std::int64_t>(items), place);
  return value;
}

const JinjaValue* JinjaCall::argument(std::size_t index, const std::string& argument_name) const {
  if (index < args.size()) return &args[index];
  for (const auto& [given, value] : named) {
    if (given == argument_name) return &value;
  }
  return nullptr;
}

void JinjaCall::allow(std::size_t most) const {
  if (args.size() > most) {
    fail(fmt::format("'{}' with more than {} arguments", printable(name), most));
  }
}

const std::string& JinjaCall::self_text() const {
  const std::string* text = self.text();
  if (text == nullptr)
    fail(fmt::format("'{}' of {}, not of a string", printable(name), self.kind()));
  return *text;
}

const std::string& JinjaCall::text_argument(std::size_t index,
                                            const std::string& argument_name) const {
  const JinjaValue* given = argument(index, argument_name);
  if (given == nullptr || given->text() == nullptr) {
    fail(fmt::format("'{}' needs a string as its argument {}", printable(name), index + 1));
  }
  return *given->text();
}

bool apply_jinja_test(const JinjaCall& call) {
  return find_jinja_row(kTests, call, "test").holds(call);
}

JinjaValue call_jinja_function(const JinjaCall& call) {
  return apply_jinja_row(kFunctions, call, "function");
}

bool is_jinja_function(const std::string& name) {
  return std::any_of(kFunctions.begin(), kFunctions.end(),
                     [&](const JinjaRow& row) { return row.name == name; });
}

std::int64_t integer_argument(const JinjaCall& call, const JinjaValue& value) {
  std::int64_t number = 0;
  if (!value.integer(number)) {
    call.fail(fmt::format("expected a whole number, found {}", value.kind()));
  }
  return number;
}

}  // namespace kvbench
