// Reading coded rows: a whole row by several threads, or one column of many rows by one thread.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/coded_rows.hpp"
#include "kernels/common/element.cuh"

namespace kvbench {

__host__ __device__ inline int packed_row(int width, const QuantLayout& layout) {
  return (width * layout.bits + 7) / 8;
}

// The group of a row whose groups lie along the rows: the first that ends behind it.
__device__ inline int group_of_row(const CodedRows& rows, std::int64_t row) {
  if (rows.group_ends == nullptr) return static_cast<int>(row / rows.layout.group);
  int low = 0;
  int high = rows.n_groups - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (rows.group_ends[middle] > row) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// One row's codes and parameters.
class CodedRow {
 public:
  __device__ CodedRow(const CodedRows& rows, std::int64_t row, int width)
      : width_(width),
        row_bytes_(packed_row(width, rows.layout)),
        columns_per_group_(rows.layout.along_rows ? 1 : rows.layout.group),
        bits_(rows.layout.bits),
        codes_(rows.codes + row * row_bytes_) {
    const int n_groups = width / columns_per_group_;
    const std::int64_t set = rows.layout.along_rows ? group_of_row(rows, row) : row;
    scales_ = rows.parameters + set * 2 * n_groups;
    zeros_ = scales_ + n_groups;
  }

  // Calls store(column, value) once for each column, shared over `n_threads` threads that all call
  // this with their own `thread`.
  template <class Store>
  __device__ void read(int thread, int n_threads, Store store) const {
    for (int byte = thread; byte < row_bytes_; byte += n_threads) {
      int codes = codes_[byte];
      for (int column = byte; column < width_; column += row_bytes_) {
        store(column, value(codes, column / columns_per_group_));
        codes >>= bits_;
      }
    }
  }

  __device__ float value(int codes, int group) const {
    const int code = codes & ((1 << bits_) - 1);
    return static_cast<float>(code) * to_float(scales_[group]) + to_float(zeros_[group]);
  }
  __device__ int byte(int index) const { return codes_[index]; }

 private:
  int width_;
  int row_bytes_;
  int columns_per_group_;
  int bits_;
  const std::uint8_t* codes_;  // [row_bytes_]
  const __half* scales_;       // [groups of columns]
  const __half* zeros_;        // [groups of columns]
};

// Where one column's code and parameters lie, the same in every row.
struct CodedColumn {
  int byte, shift, group;

  __device__ CodedColumn(const QuantLayout& layout, int width, int column) {
    const int row_bytes = packed_row(width, layout);
    byte = column % row_bytes;
    shift = column / row_bytes * layout.bits;
    group = layout.along_rows ? column : column / layout.group;
  }
  __device__ float of(const CodedRow& row) const {
    return row.value(row.byte(byte) >> shift, group);
  }
};

}  // namespace kvbench
