// Runs of rows that move inside slabs, by way of a workspace: all rows are read before any is
// written, so that a run may overlap itself.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace kvbench {

// slab row dst_row + i <- slab row src_row + i; row i of the run waits in workspace row
// workspace_row + i.
struct RowRun {
  void* slab;
  std::int64_t dst_row;
  std::int64_t src_row;
  std::int64_t n_rows;
  std::int64_t workspace_row;
};

// Device pointers. Preconditions: 0 <= n_runs < 2^16; slabs and workspace are aligned to 16 bytes;
// row_bytes > 0; no run's source is another run's destination.
struct MoveRowsParams {
  const RowRun* runs;  // [n_runs]
  void* workspace;     // [sum of n_rows, row_bytes]
  std::int64_t n_runs;
  std::int64_t longest_run;  // rows
  std::size_t row_bytes;
};

void move_rows(const MoveRowsParams& params, cudaStream_t stream);

}  // namespace kvbench
