// Rows of keys or values stored as codes of a few bits (KIVI): layout and arithmetic, in host
// memory. A group of numbers shares a scale and a zero: x is stored as
//   code = round((x - zero) / scale), half to even, within 0 .. 2^bits - 1,
// with zero = min and scale = (max - min) / (2^bits - 1), both rounded to f16 before they are used,
// and read as code * scale + zero. A group without range has scale 0 and code 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/dtype.hpp"

namespace kvbench {

struct QuantFormat {
  std::int64_t bits = 2;    // 1, 2, 4 or 8
  std::int64_t group = 32;  // numbers that share scale and zero
  // Groups of consecutive rows within one column (keys: channels have their own size), in place of
  // groups of consecutive columns within one row (values).
  bool along_rows = false;
};

// Bytes of one row's codes. Byte i holds columns i, i + bytes, i + 2 * bytes, ..., the first in
// its lowest bits: whole bytes then unpack to neighbouring columns.
std::size_t packed_row_bytes(std::int64_t width, const QuantFormat& format);
// Bytes of the parameters that stand together: all scales, then all zeros, f16. Along rows, of one
// group of rows [2, width]; else of one row [2, width / group].
std::size_t parameter_bytes(std::int64_t width, const QuantFormat& format);

// The leading rows of a head that are quantised.
struct QuantisedRows {
  QuantFormat format;
  const std::uint8_t* codes = nullptr;        // [n_rows, packed_row_bytes]
  const std::uint16_t* parameters = nullptr;  // [n_rows or n_groups, parameter_bytes]
  std::int64_t n_rows = 0;
  // Along rows only; host: where each group of rows ends, ascending to n_rows. A group may have
  // fewer rows than it was quantised with.
  const std::int32_t* group_ends = nullptr;  // [n_groups]
  std::int64_t n_groups = 0;
};

// Rows to codes. Along rows, n_rows is a multiple of the group; else width is.
struct QuantiseArgs {
  const void* rows;  // [n_rows, width] of dtype
  DType dtype;       // f32 or bf16
  std::int64_t n_rows;
  std::int64_t width;
  QuantFormat format;
  void* codes;       // [n_rows, packed_row_bytes]
  void* parameters;  // [n_rows or n_rows / group, parameter_bytes]
};

// In host memory. Returns -1, or the first row of the first group that holds a number which is not
// finite or whose scale or zero f16 cannot hold; nothing after that group is written.
std::int64_t quantise_rows(const QuantiseArgs& args);

// Rows [first, first + n) as attention sees them: out [n, width].
void dequantise_rows(const QuantisedRows& rows, std::int64_t first, std::int64_t n,
                     std::int64_t width, float* out);

}  // namespace kvbench
