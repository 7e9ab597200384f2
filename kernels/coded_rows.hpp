// Rows of numbers stored as codes of a few bits, as kernels see them: groups of numbers share a
// scale and a zero (KIVI). Layout and arithmetic are those of backend/quantised_rows.hpp.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace kvbench {

struct QuantLayout {
  int bits = 8;             // 1, 2, 4 or 8
  int group = 1;            // numbers that share a scale and a zero
  bool along_rows = false;  // groups of rows within a column, in place of columns within a row
};

// Device pointers.
struct CodedRows {
  const std::uint8_t* codes = nullptr;  // [n_rows, packed row]
  const __half* parameters = nullptr;   // scales, then zeros: [groups, 2, width] along rows, else
                                        // [n_rows, 2, width / group]
  const std::int32_t* group_ends = nullptr;  // [n_groups], along rows: the row behind each group's
                                             // last; null: all groups are whole
  std::int64_t n_rows = 0;
  int n_groups = 0;
  QuantLayout layout;
};

}  // namespace kvbench
