// CSV (RFC 4180, LF) of index rows, the columns of all rows in order of appearance.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <ostream>
#include <span>

namespace kvbench {

void write_csv(std::ostream& out, std::span<const nlohmann::ordered_json> rows);

}  // namespace kvbench
