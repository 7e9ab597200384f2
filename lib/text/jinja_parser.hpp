// From the tokens of a chat template to its tree. What the subset does not have (macro, include,
// import, call, raw, ...) is refused by name and place.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja_tree.hpp"

namespace kvbench {

// DataError names `source`, line and column.
JinjaBody parse_jinja(std::string_view text, const std::string& source);

}  // namespace kvbench
