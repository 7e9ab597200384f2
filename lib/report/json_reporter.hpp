// JSON text of records: always valid, whatever the strings hold. Invalid UTF-8 becomes U+FFFD and
// numbers that are not finite become null.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <ostream>
#include <span>
#include <string>

namespace kvbench {

// indent < 0: one line.
std::string dump_json(const nlohmann::ordered_json& value, int indent = -1);

// An array of rows as record_to_row() makes them: what --json prints.
void write_json_rows(std::ostream& out, std::span<const nlohmann::ordered_json> rows);

}  // namespace kvbench
