// Rows picked from a matrix and rows added into one: what mixtures of experts and tables of
// positions need.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace kvbench {

// Row rows[i] of x becomes row i of out. Device pointers. Preconditions: 0 <= n_rows < 2^31,
// row_bytes is a positive multiple of 2.
struct GatherRowsParams {
  const void* x;             // [., row_bytes]
  void* out;                 // [n_rows, row_bytes]
  const std::int32_t* rows;  // [n_rows]
  std::int64_t n_rows;
  std::size_t row_bytes;
};
void gather_rows(const GatherRowsParams& params, cudaStream_t stream);

// Row i of x, times weights[i], is added to row rows[i] of y; where rows repeat, in the order of i.
// Device pointers. Preconditions: n_rows >= 0, width > 0, `distinct` only when no row repeats.
struct AddRowsParams {
  const float* x;            // [n_rows, width]
  float* y;                  // [., width]
  const std::int32_t* rows;  // [n_rows]
  const float* weights;      // [n_rows]
  std::int64_t n_rows;
  std::int64_t width;
  bool distinct;  // no row repeats: rows run side by side
};
void add_rows(const AddRowsParams& params, cudaStream_t stream);

}  // namespace kvbench
