// Rows of keys or values to codes of a few bits (KIVI), and back. Codes, scales and zeros equal
// those of backend/quantised_rows.hpp bit by bit.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/coded_rows.hpp"

namespace kvbench {

// Some rows of one side of one head. Device pointers. Preconditions: 0 <= n_rows < 2^31;
// 0 < width <= 4096; n_rows (along rows) or width (else) is a multiple of the group.
struct QuantiseJob {
  const void* rows;  // [n_rows, width]
  std::int64_t n_rows;
  int width;
  QuantLayout layout;
  std::uint8_t* codes;  // [n_rows, packed row]
  __half* parameters;   // as CodedRows has them
  // [1]: lowered to first_id + the first row of each group that f16 parameters cannot hold or that
  // has a number which is not finite.
  std::uint32_t* failure;
  std::uint32_t first_id;
};

// Precondition: 0 <= n_jobs < 2^16.
struct QuantiseParams {
  const QuantiseJob* jobs;       // [n_jobs], device
  const QuantiseJob* host_jobs;  // the same, host
  int n_jobs;
  bool rows_bf16;  // all rows: bf16 or f32
};
void quantise(const QuantiseParams& params, cudaStream_t stream);

// The keys or the values of one KV head: coded rows, then plain ones.
struct StoredSide {
  CodedRows coded;
  const void* rows;     // [length - coded.n_rows, width]
  std::int64_t length;  // rows of both kinds
  float* out;           // [length, width]
};

// All rows of several sides as f32. Device pointers. Preconditions: 0 <= n_sides < 2^16, width > 0.
struct DequantiseParams {
  const StoredSide* sides;  // [n_sides]
  int n_sides;
  std::int64_t longest;  // rows
  int width;
  bool rows_bf16;  // the plain rows: bf16 or f32
};
void dequantise(const DequantiseParams& params, cudaStream_t stream);

}  // namespace kvbench
