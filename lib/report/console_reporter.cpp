// Definitions of report/console_reporter.hpp.
#include "report/console_reporter.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "report/json_reporter.hpp"
#include "report/record.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

std::string plain_real(double value) {
  const bool readable = value == 0 || (std::abs(value) >= 1e-3 && std::abs(value) < 1e6);
  return readable ? fmt::format("{:.4f}", value) : fmt::format("{:.4g}", value);
}

std::string text_of(const Json& row, const std::string& key) {
  const auto found = row.find(key);
  if (found == row.end() || found->is_null()) return "-";
  return found->is_string() ? found->get<std::string>() : dump_json(*found);
}

std::optional<double> number_of(const Json& row, const std::string& key) {
  const auto found = row.find(key);
  if (found == row.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// Columns on a terminal: code points, as "±" is two bytes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

std::vector<std::string> warnings_of(const Json& row) {
  const auto found = row.find("warnings");
  return found == row.end() ? std::vector<std::string>() : found->get<std::vector<std::string>>();
}

// What all rows warn of is said once; the rest under the name of its policy.
void write_notes(std::ostream& out, std::span<const Json> rows) {
  const auto shared = [&](const std::string& warning) {
    return rows.size() > 1 && std::all_of(rows.begin(), rows.end(), [&](const Json& other) {
             const auto warnings = warnings_of(other);
             return std::find(warnings.begin(), warnings.end(), warning) != warnings.end();
           });
  };
  if (!rows.empty()) {
    for (const std::string& warning : warnings_of(rows.front())) {
      if (shared(warning)) out << "warning: " << warning << '\n';
    }
  }
  for (const Json& row : rows) {
    const std::string policy = text_of(row, "policy");
    if (text_of(row, "status") == "error") {
      out << "error: " << policy << ": " << text_of(row, "reason") << '\n';
    }
    for (const std::string& warning : warnings_of(row)) {
      if (!shared(warning)) out << "warning: " << policy << ": " << warning << '\n';
    }
  }
}

}  // namespace

std::string format_cell(const ReportColumn& column, const Json& row) {
  if (column.format == CellFormat::policy) return text_of(row, "policy");
  if (column.format == CellFormat::text) return text_of(row, column.metric);
  const auto value = number_of(row, column.metric);
  if (!value) return "-";
  switch (column.format) {
    case CellFormat::measured: {
      const auto error = number_of(row, error_bar_name(column.metric));
      return plain_real(*value) + (error ? " ± " + plain_real(*error) : "");
    }
    case CellFormat::count:
      return human_count(static_cast<std::int64_t>(*value));
    case CellFormat::rate:
      return human_rate(*value);
    case CellFormat::bytes:
      return human_bytes(*value);
    case CellFormat::ratio:
      return fmt::format("{:.1f} %", 100 * *value);
    default:
      return plain_real(*value);
  }
}

void write_table(std::ostream& out, std::span<const ReportColumn> columns,
                 std::span<const Json> rows) {
  std::vector<std::vector<std::string>> lines(1);
  for (const ReportColumn& column : columns) lines.front().push_back(column.title);
  for (const Json& row : rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const ReportColumn& column : columns) line.push_back(format_cell(column, row));
  }
  std::vector<std::size_t> widths(columns.size(), 0);
  for (const auto& line : lines) {
    for (std::size_t index = 0; index < line.size(); ++index) {
      widths[index] = std::max(widths[index], width_of(line[index]));
    }
  }
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t index = 0; index < line.size(); ++index) {
      const std::string padding(widths[index] - width_of(line[index]), ' ');
      const bool left =
          columns[index].format == CellFormat::policy || columns[index].format == CellFormat::text;
      text += (index == 0 ? "" : "  ") + (left ? line[index] + padding : padding + line[index]);
    }
    out << text.erase(text.find_last_not_of(' ') + 1) << '\n';
  }
  write_notes(out, rows);
}

std::string human_bytes(double bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  // 1023.995 would print as 1024.00.
  while (std::abs(bytes) >= 1023.995 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, kUnits[unit]);
}

std::string human_rate(double per_second) {
  if (per_second >= 999'950) return fmt::format("{:.1f}M", per_second / 1e6);
  if (per_second >= 999.95) return fmt::format("{:.1f}k", per_second / 1e3);
  return fmt::format("{:.1f}", per_second);
}

std::string human_count(std::int64_t count) {
  std::string digits = fmt::format("{}", count);
  const std::ptrdiff_t first_digit = count < 0 ? 1 : 0;
  for (auto place = static_cast<std::ptrdiff_t>(digits.size()) - 3; place > first_digit;
       place -= 3) {
    digits.insert(static_cast<std::size_t>(place), 1, ',');
  }
  return digits;
}

}  // namespace kvbench
