// Renders a parsed chat template. Names that a template sets inside a loop stay there, as in Jinja.
#pragma once

#include <string>

#include "text/jinja_tree.hpp"

namespace kvbench {

// `given`: the names that the template starts with. DataError names `source`, line and column of
// what cannot be done or is not supported, and passes on what the template itself refuses.
std::string render_jinja(const JinjaBody& body, const JinjaDict& given, const std::string& source);

}  // namespace kvbench
