// Looking up a filter, test, method or function of chat templates by its name.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/nearest_name.hpp"
#include "core/printable.hpp"
#include "text/jinja_calls.hpp"

namespace kvbench {

struct JinjaRow {
  std::string_view name;
  JinjaValue (*apply)(const JinjaCall& call);
};

// The row of the call's name. DataError names the nearest one where there is none.
template <class Rows>
const auto& find_jinja_row(const Rows& rows, const JinjaCall& call, const std::string& what) {
  std::vector<std::string> known;
  for (const auto& row : rows) {
    if (row.name == call.name) return row;
    known.emplace_back(row.name);
  }
  const std::string nearest = nearest_name(call.name, known);
  const std::string hint =
      nearest.empty() ? "" : fmt::format(" (did the template mean {}?)", nearest);
  call.fail(fmt::format("the {} '{}' is not supported{}", what, printable(call.name), hint));
}

// What the row makes of it, within the budget.
template <class Rows>
JinjaValue apply_jinja_row(const Rows& rows, const JinjaCall& call, const std::string& what) {
  return call.budget.checked(find_jinja_row(rows, call, what).apply(call), call.place);
}

}  // namespace kvbench
