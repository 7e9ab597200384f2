// Embedding look-up: rows of a table by token id, widened to f32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace kvbench {

enum class TableDtype : std::uint8_t { f32, f16, bf16 };

// Device pointers. Preconditions: 0 <= n_rows < 2^31, width > 0, every id is a row of the table.
struct EmbedParams {
  const void* table;  // [rows, width] of table_dtype
  TableDtype table_dtype;
  const std::int32_t* ids;  // [n_rows]
  float* out;               // [n_rows, width]
  std::int64_t n_rows;
  std::int64_t width;
};

void embed(const EmbedParams& params, cudaStream_t stream);

}  // namespace kvbench
