// Aligned tables for a person: one line per index row, columns given as data, human units.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace kvbench {

enum class CellFormat {
  policy,    // the row's policy; `metric` is unused
  text,      // a field as it is, to the left
  real,      // 4.9530
  measured,  // 4.9530 ± 0.0120
  count,     // 1,234,567
  rate,      // 12.3, 4.5k, 1.2M
  bytes,     // 512 B, 1.50 MiB
  ratio,     // 12.5 %
};

struct ReportColumn {
  std::string title;
  std::string metric;
  CellFormat format = CellFormat::real;
};

// The table of rows as record_to_row() makes them; below it their warnings, and the reasons of
// those that failed.
void write_table(std::ostream& out, std::span<const ReportColumn> columns,
                 std::span<const nlohmann::ordered_json> rows);

// One cell of it.
std::string format_cell(const ReportColumn& column, const nlohmann::ordered_json& row);

std::string human_bytes(double bytes);
std::string human_rate(double per_second);
std::string human_count(std::int64_t count);

}  // namespace kvbench
