// CSV (RFC 4180, LF) of records: one row each, the columns of all rows in order of appearance.
#pragma once

#include <ostream>
#include <span>

#include "report/record.hpp"

namespace kvbench {

void write_csv(std::ostream& out, std::span<const RunRecord> records);

}  // namespace kvbench
