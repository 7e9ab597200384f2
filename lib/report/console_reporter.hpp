// Aligned tables for a person: one row per record, columns given as data, human units.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "report/record.hpp"

namespace kvbench {

enum class CellFormat {
  policy,    // the record's policy; `metric` is unused
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

// The table; below it each record's warnings, and for a failed record its reason in the row.
void write_table(std::ostream& out, std::span<const ReportColumn> columns,
                 std::span<const RunRecord> records);

// Columns of the perplexity task.
std::span<const ReportColumn> ppl_columns();

std::string human_bytes(double bytes);
std::string human_rate(double per_second);
std::string human_count(std::int64_t count);

}  // namespace kvbench
