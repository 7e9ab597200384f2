// Definitions of report/console_reporter.hpp.
#include "report/console_reporter.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kvbench {
namespace {

std::string plain_real(double value) {
  const bool readable = value == 0 || (std::abs(value) >= 1e-3 && std::abs(value) < 1e6);
  return readable ? fmt::format("{:.4f}", value) : fmt::format("{:.4g}", value);
}

std::string format_cell(const ReportColumn& column, const RunRecord& record) {
  if (column.format == CellFormat::policy) return record.policy;
  const Metric* metric = find_metric(record, column.metric);
  if (metric == nullptr || !metric->value) return "-";
  const double value = *metric->value;
  switch (column.format) {
    case CellFormat::measured:
      return plain_real(value) +
             (metric->standard_error ? " ± " + plain_real(*metric->standard_error) : "");
    case CellFormat::count:
      return std::isfinite(value) ? human_count(static_cast<std::int64_t>(value)) : "-";
    case CellFormat::rate:
      return human_rate(value);
    case CellFormat::bytes:
      return human_bytes(value);
    case CellFormat::ratio:
      return fmt::format("{:.1f} %", 100 * value);
    default:
      return plain_real(value);
  }
}

// Columns on a terminal: code points, as "±" is two bytes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

bool has_warning(const RunRecord& record, const std::string& warning) {
  return std::find(record.warnings.begin(), record.warnings.end(), warning) !=
         record.warnings.end();
}

// What all records warn of is said once; the rest under the name of its policy.
void write_notes(std::ostream& out, std::span<const RunRecord> records) {
  const auto shared = [&](const std::string& warning) {
    return records.size() > 1 &&
           std::all_of(records.begin(), records.end(),
                       [&](const RunRecord& other) { return has_warning(other, warning); });
  };
  if (!records.empty()) {
    for (const std::string& warning : records.front().warnings) {
      if (shared(warning)) out << "warning: " << warning << '\n';
    }
  }
  for (const RunRecord& record : records) {
    if (!record.ok) out << "error: " << record.policy << ": " << record.reason << '\n';
    for (const std::string& warning : record.warnings) {
      if (!shared(warning)) out << "warning: " << record.policy << ": " << warning << '\n';
    }
  }
}

}  // namespace

void write_table(std::ostream& out, std::span<const ReportColumn> columns,
                 std::span<const RunRecord> records) {
  std::vector<std::vector<std::string>> lines(1);
  for (const ReportColumn& column : columns) lines.front().push_back(column.title);
  for (const RunRecord& record : records) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const ReportColumn& column : columns) line.push_back(format_cell(column, record));
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
      const bool left = columns[index].format == CellFormat::policy;
      text += (index == 0 ? "" : "  ") + (left ? line[index] + padding : padding + line[index]);
    }
    out << text.erase(text.find_last_not_of(' ') + 1) << '\n';
  }
  write_notes(out, records);
}

std::span<const ReportColumn> ppl_columns() {
  static const std::array kColumns{
      ReportColumn{"policy", "", CellFormat::policy},
      ReportColumn{"ppl ± s.e.", "ppl", CellFormat::measured},
      ReportColumn{"bits/byte", "bits_per_byte", CellFormat::real},
      ReportColumn{"tokens", "tokens_scored", CellFormat::count},
      ReportColumn{"tok/s", "tokens_per_s", CellFormat::rate},
      ReportColumn{"KV kept", "kv_bytes_live", CellFormat::bytes},
      ReportColumn{"KV peak", "kv_bytes_peak", CellFormat::bytes},
      ReportColumn{"KV/full", "kv_ratio_to_full", CellFormat::ratio},
      ReportColumn{"ppl/full", "ratio_to_full", CellFormat::ratio},
  };
  return kColumns;
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
