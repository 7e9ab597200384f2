// The nearest of some valid names, for "did you mean ...?" in error messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvbench {

// The name with the fewest single-letter edits (case and swapped neighbours are forgiven) from
// `given`, the earlier one on a tie; empty when none is near enough to be a likely slip.
std::string nearest_name(std::string_view given, std::span<const std::string> names);

}  // namespace kvbench
