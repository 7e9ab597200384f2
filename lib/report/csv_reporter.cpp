// Definitions of report/csv_reporter.hpp.
#include "report/csv_reporter.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/json_reporter.hpp"

namespace kvbench {
namespace {

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char byte : text) {
    if (byte == '"') result += '"';
    result += byte;
  }
  return result + '"';
}

// Null is an empty cell; a list or an object stands as its JSON text.
std::string cell(const nlohmann::ordered_json& row, const std::string& column) {
  const auto found = row.find(column);
  if (found == row.end() || found->is_null()) return "";
  return quoted(found->is_string() ? found->get<std::string>() : dump_json(*found));
}

}  // namespace

void write_csv(std::ostream& out, std::span<const nlohmann::ordered_json> rows) {
  std::vector<std::string> columns;
  for (const auto& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (std::find(columns.begin(), columns.end(), key) == columns.end()) columns.push_back(key);
    }
  }
  const auto write_line = [&](const auto& cell_of) {
    for (std::size_t index = 0; index < columns.size(); ++index) {
      out << (index == 0 ? "" : ",") << cell_of(columns[index]);
    }
    out << '\n';
  };
  write_line([](const std::string& column) { return quoted(column); });
  for (const auto& row : rows) {
    write_line([&](const std::string& column) { return cell(row, column); });
  }
}

}  // namespace kvbench
