// Row moves: one kernel gathers the runs into the workspace, one scatters them; the blocks of a
// grid row share one run. Words are as wide as the rows allow.
#include <algorithm>

#include "kernels/common/launch.hpp"
#include "kernels/move_rows.hpp"

namespace kvbench {
namespace {

constexpr int kBlockThreads = 256;
constexpr std::int64_t kWordsPerThread = 8;
constexpr std::int64_t kMaxBlocksPerRun = 1024;

template <class Word>
__global__ void __launch_bounds__(kBlockThreads) gather_rows_kernel(MoveRowsParams p) {
  const RowRun run = p.runs[blockIdx.y];
  const std::int64_t row_words = static_cast<std::int64_t>(p.row_bytes / sizeof(Word));
  const Word* from = static_cast<const Word*>(run.slab) + run.src_row * row_words;
  Word* to = static_cast<Word*>(p.workspace) + run.workspace_row * row_words;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlockThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
       i < run.n_rows * row_words; i += step) {
    to[i] = from[i];
  }
}

template <class Word>
__global__ void __launch_bounds__(kBlockThreads) scatter_rows_kernel(MoveRowsParams p) {
  const RowRun run = p.runs[blockIdx.y];
  const std::int64_t row_words = static_cast<std::int64_t>(p.row_bytes / sizeof(Word));
  const Word* from = static_cast<const Word*>(p.workspace) + run.workspace_row * row_words;
  Word* to = static_cast<Word*>(run.slab) + run.dst_row * row_words;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlockThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
       i < run.n_rows * row_words; i += step) {
    to[i] = from[i];
  }
}

template <class Word>
void move_words(const MoveRowsParams& params, cudaStream_t stream) {
  const auto row_words = static_cast<std::int64_t>(params.row_bytes / sizeof(Word));
  const std::int64_t per_block = kBlockThreads * kWordsPerThread;
  const std::int64_t blocks = (params.longest_run * row_words + per_block - 1) / per_block;
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, kMaxBlocksPerRun)),
                   static_cast<unsigned>(params.n_runs)),
      .block = dim3(kBlockThreads),
      .stream = stream};
  launch("gather_rows", gather_rows_kernel<Word>, shape, params);
  launch("scatter_rows", scatter_rows_kernel<Word>, shape, params);
}

}  // namespace

void move_rows(const MoveRowsParams& params, cudaStream_t stream) {
  const char* const name = "move_rows";
  check_contract(params.n_runs >= 0 && params.n_runs < 65536, name, "0 <= n_runs < 2^16");
  check_contract(params.row_bytes > 0, name, "row_bytes > 0");
  if (params.n_runs == 0) return;
  if (params.row_bytes % sizeof(uint4) == 0) {
    move_words<uint4>(params, stream);
  } else if (params.row_bytes % sizeof(unsigned short) == 0) {
    move_words<unsigned short>(params, stream);
  } else {
    move_words<unsigned char>(params, stream);
  }
}

}  // namespace kvbench
