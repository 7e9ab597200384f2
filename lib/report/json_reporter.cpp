// Definitions of report/json_reporter.hpp.
#include "report/json_reporter.hpp"

#include <nlohmann/json.hpp>

namespace kvbench {

std::string dump_json(const nlohmann::ordered_json& value, int indent) {
  // The default handler throws on an answer that was cut inside a character.
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void write_json_rows(std::ostream& out, std::span<const nlohmann::ordered_json> rows) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (const auto& row : rows) array.push_back(row);
  out << dump_json(array, 2) << '\n';
}

}  // namespace kvbench
