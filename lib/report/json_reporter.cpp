// Definitions of report/json_reporter.hpp.
#include "report/json_reporter.hpp"

#include <nlohmann/json.hpp>

namespace kvbench {

std::string dump_json(const nlohmann::ordered_json& value, int indent) {
  // The default handler throws on an answer that was cut inside a character.
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void write_json_rows(std::ostream& out, std::span<const RunRecord> records) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const RunRecord& record : records) rows.push_back(record_to_row(record));
  out << dump_json(rows, 2) << '\n';
}

}  // namespace kvbench
