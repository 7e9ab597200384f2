// Picked rows: a block copies one row. Added rows: a thread owns a column, so that repeated rows
// are added in order, and blocks share the rows out where none repeats.
#include "kernels/rows.hpp"

#include <algorithm>
#include <climits>

#include "kernels/common/launch.hpp"

namespace kvbench {
namespace {

constexpr int kBlockThreads = 256;
constexpr std::int64_t kMaxGridRows = 65535;

__global__ void __launch_bounds__(kBlockThreads) gather_rows_kernel(GatherRowsParams p) {
  using Word = unsigned short;
  const auto words = static_cast<std::int64_t>(p.row_bytes / sizeof(Word));
  const Word* from = static_cast<const Word*>(p.x) + p.rows[blockIdx.x] * words;
  Word* to = static_cast<Word*>(p.out) + blockIdx.x * words;
  for (std::int64_t i = threadIdx.x; i < words; i += kBlockThreads) to[i] = from[i];
}

__global__ void __launch_bounds__(kBlockThreads) add_rows_kernel(AddRowsParams p) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (column >= p.width) return;
  for (std::int64_t i = blockIdx.y; i < p.n_rows; i += gridDim.y) {
    p.y[p.rows[i] * p.width + column] += p.x[i * p.width + column] * p.weights[i];
  }
}

}  // namespace

void gather_rows(const GatherRowsParams& params, cudaStream_t stream) {
  const char* const name = "gather_rows";
  check_contract(params.n_rows >= 0 && params.n_rows <= INT_MAX, name, "0 <= n_rows < 2^31");
  check_contract(params.row_bytes > 0 && params.row_bytes % 2 == 0, name, "row_bytes even");
  if (params.n_rows == 0) return;
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(params.n_rows)),
                          .block = dim3(kBlockThreads),
                          .stream = stream};
  launch(name, gather_rows_kernel, shape, params);
}

void add_rows(const AddRowsParams& params, cudaStream_t stream) {
  const char* const name = "add_rows";
  check_contract(params.n_rows >= 0, name, "n_rows >= 0");
  check_contract(params.width > 0, name, "width > 0");
  if (params.n_rows == 0) return;
  const std::int64_t columns = (params.width + kBlockThreads - 1) / kBlockThreads;
  const std::int64_t rows = params.distinct ? std::min(params.n_rows, kMaxGridRows) : 1;
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(columns), static_cast<unsigned>(rows)),
                          .block = dim3(kBlockThreads),
                          .stream = stream};
  launch(name, add_rows_kernel, shape, params);
}

}  // namespace kvbench
