// Fused loss: one block of threads per row reads the logits twice (the second time from cache).
// Sums are f32 within a thread's few terms and double beyond: a long f32 sum drifts.
#include <climits>

#include "kernels/common/launch.hpp"
#include "kernels/common/reduce.cuh"
#include "kernels/common/shared.cuh"
#include "kernels/nll.hpp"

namespace kvbench {
namespace {

constexpr int kRowThreads = 256;
constexpr int kWarps = kRowThreads / kWarpSize;
// Left to itself, the compiler aims at more and spills.
constexpr int kBlocksPerMultiprocessor = 4;

__device__ float finished_logit(const FoldLogitsParams& p, float logit) {
  logit *= p.logit_scale;
  return p.logit_cap > 0.0f ? p.logit_cap * tanhf(logit / p.logit_cap) : logit;
}

__global__ void __launch_bounds__(kRowThreads, kBlocksPerMultiprocessor)
    fold_logits_kernel(FoldLogitsParams p) {
  SharedArena arena;
  float* warp_maxima = arena.take<float>(kWarps);
  double* warp_sums = arena.take<double>(kWarps);
  const std::int64_t row = blockIdx.x;
  const float* logits = p.logits + row * p.width;  // [width]
  const FoldedLogits before = p.first_block ? FoldedLogits{0.0, -INFINITY, 0.0f} : p.folded[row];

  float maximum = before.maximum;
  for (std::int64_t i = threadIdx.x; i < p.width; i += kRowThreads) {
    maximum = fmaxf(maximum, finished_logit(p, logits[i]));
  }
  maximum = block_max<kRowThreads>(maximum, warp_maxima);
  // Nothing but -inf so far: any finite reference makes every term exp(-inf) = 0, and a NaN stays.
  const float reference = maximum == -INFINITY ? 0.0f : maximum;
  float sum = 0.0f;
  for (std::int64_t i = threadIdx.x; i < p.width; i += kRowThreads) {
    sum += expf(finished_logit(p, logits[i]) - reference);
  }
  const double total = block_sum<kRowThreads>(static_cast<double>(sum), warp_sums);

  if (threadIdx.x != 0) return;
  const double rescale = exp(static_cast<double>(before.maximum) - static_cast<double>(reference));
  FoldedLogits after = {before.sum * rescale + total, maximum, before.target_logit};
  const std::int64_t target = p.targets[row] - p.first_id;
  if (target >= 0 && target < p.width) after.target_logit = finished_logit(p, logits[target]);
  p.folded[row] = after;
}

__global__ void __launch_bounds__(kRowThreads) finish_nll_kernel(FinishNllParams p) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kRowThreads + threadIdx.x;
  if (row >= p.n_rows) return;
  const FoldedLogits folded = p.folded[row];
  p.nll[row] = static_cast<double>(folded.maximum) + log(folded.sum) -
               static_cast<double>(folded.target_logit);
}

}  // namespace

void fold_logits(const FoldLogitsParams& params, cudaStream_t stream) {
  const char* const name = "fold_logits";
  check_contract(params.n_rows >= 0 && params.n_rows <= INT_MAX, name, "0 <= n_rows < 2^31");
  check_contract(params.width > 0, name, "width > 0");
  if (params.n_rows == 0) return;
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(params.n_rows)),
      .block = dim3(kRowThreads),
      .shared_bytes = shared_bytes(kWarps, sizeof(float)) + shared_bytes(kWarps, sizeof(double)),
      .stream = stream};
  launch(name, fold_logits_kernel, shape, params);
}

void finish_nll(const FinishNllParams& params, cudaStream_t stream) {
  const char* const name = "finish_nll";
  check_contract(params.n_rows >= 0 && params.n_rows <= INT_MAX, name, "0 <= n_rows < 2^31");
  if (params.n_rows == 0) return;
  const std::int64_t blocks = (params.n_rows + kRowThreads - 1) / kRowThreads;
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kRowThreads), .stream = stream};
  launch(name, finish_nll_kernel, shape, params);
}

}  // namespace kvbench
