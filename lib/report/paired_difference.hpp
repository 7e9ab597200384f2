// Error bar of a difference between two runs over the same samples. What both runs find hard
// cancels, so it is far below the error bar of either.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string_view>

namespace kvbench {

// Standard error of (metric of b) - (metric of a) from the rows that both whole records hold of
// the same documents or samples. Absent where the metric has no such rows, where the rows are not
// of the same samples, and below two of them.
std::optional<double> paired_standard_error(const nlohmann::ordered_json& a,
                                            const nlohmann::ordered_json& b,
                                            std::string_view metric);

}  // namespace kvbench
