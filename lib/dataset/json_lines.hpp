// Texts of one JSON value a line.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace kvbench {

// Calls `take` for each line that is not blank, with its place ("FILE, line N") and number, until
// it returns false. DataError for a line that is no JSON; the first may begin with a byte-order
// mark.
void read_json_lines(std::string_view content, const std::string& file,
                     const std::function<bool(const nlohmann::json& row, const std::string& where,
                                              std::int64_t number)>& take);

}  // namespace kvbench
