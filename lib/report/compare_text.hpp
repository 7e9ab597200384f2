// A comparison for a person (table), a pull request (Markdown) and a program (JSON).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

#include "report/compare.hpp"

namespace kvbench {

std::string comparison_table(const Comparison& comparison);
std::string comparison_markdown(const Comparison& comparison);
nlohmann::ordered_json comparison_to_json(const Comparison& comparison);

// Text from records inside a cell of a Markdown table: no markup, no HTML, no line break.
std::string markdown_cell(const std::string& text);

}  // namespace kvbench
