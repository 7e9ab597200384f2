// Quantising: blockIdx.y is the job; a block takes the rows that share parameters (along rows: a
// group of them; else one). Its threads first take groups of numbers for their scales and zeros,
// then bytes of codes.
// Dequantising: warps take rows, blockIdx.y the side.
#include "kernels/quantise.hpp"

#include <algorithm>
#include <climits>

#include "kernels/common/coded_row.cuh"
#include "kernels/common/launch.hpp"
#include "kernels/common/reduce.cuh"
#include "kernels/common/shared.cuh"

namespace kvbench {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kMaxWidth = 4096;

struct Group {
  __half scale, zero;
};

// Of the numbers x[0], x[step], ...; both zero, and `bad` set, where f16 cannot hold them or a
// number is not finite.
template <class In>
__device__ Group fit_group(const In* x, int n, int step, float largest, bool* bad) {
  float least = to_float(x[0]);
  float most = least;
  bool finite = true;
  for (int i = 0; i < n; ++i) {
    const float value = to_float(x[static_cast<std::int64_t>(i) * step]);
    finite = finite && fabsf(value) < INFINITY;
    least = fminf(least, value);
    most = fmaxf(most, value);
  }
  const Group group = {__float2half_rn((most - least) / largest), __float2half_rn(least)};
  *bad = !(finite && fabsf(to_float(group.scale)) < INFINITY &&
           fabsf(to_float(group.zero)) < INFINITY);
  return *bad ? Group{__float2half_rn(0.0f), __float2half_rn(0.0f)} : group;
}

__device__ inline unsigned code_of(float x, float scale, float zero, float largest) {
  if (scale == 0.0f) return 0;
  return static_cast<unsigned>(fminf(fmaxf(rintf((x - zero) / scale), 0.0f), largest));
}

template <class In>
__global__ void __launch_bounds__(kThreads) quantise_kernel(const QuantiseJob* jobs) {
  const QuantiseJob p = jobs[blockIdx.y];
  const bool along_rows = p.layout.along_rows;
  const int block_rows = along_rows ? p.layout.group : 1;
  const int group_width = along_rows ? 1 : p.layout.group;
  const int n_groups = p.width / group_width;
  SharedArena arena;
  float* scales = arena.take<float>(n_groups);
  float* zeros = arena.take<float>(n_groups);

  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * block_rows;
  if (first_row >= p.n_rows) return;
  const In* rows = static_cast<const In*>(p.rows) + first_row * p.width;  // [block_rows, width]
  __half* parameters =
      p.parameters + static_cast<std::int64_t>(blockIdx.x) * 2 * n_groups;  // [2, n_groups]
  const float largest = static_cast<float>((1 << p.layout.bits) - 1);
  for (int g = static_cast<int>(threadIdx.x); g < n_groups; g += kThreads) {
    bool bad = false;
    const Group group =
        fit_group(rows + g * group_width, p.layout.group, along_rows ? p.width : 1, largest, &bad);
    if (bad) atomicMin(p.failure, p.first_id + static_cast<std::uint32_t>(first_row));
    parameters[g] = group.scale;
    parameters[n_groups + g] = group.zero;
    scales[g] = to_float(group.scale);
    zeros[g] = to_float(group.zero);
  }
  __syncthreads();

  const int row_bytes = packed_row(p.width, p.layout);
  std::uint8_t* codes = p.codes + first_row * row_bytes;  // [block_rows, row_bytes]
  for (int i = static_cast<int>(threadIdx.x); i < block_rows * row_bytes; i += kThreads) {
    const In* row = rows + static_cast<std::int64_t>(i / row_bytes) * p.width;
    unsigned packed = 0;
    int shift = 0;
    for (int column = i % row_bytes; column < p.width; column += row_bytes) {
      const int group = column / group_width;
      packed |= code_of(to_float(row[column]), scales[group], zeros[group], largest) << shift;
      shift += p.layout.bits;
    }
    codes[i] = static_cast<std::uint8_t>(packed);
  }
}

template <class Kv>
__global__ void __launch_bounds__(kThreads) dequantise_kernel(DequantiseParams p) {
  const StoredSide side = p.sides[blockIdx.y];
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp; row < side.length;
       row += step) {
    float* out = side.out + row * p.width;
    const std::int64_t behind = row - side.coded.n_rows;
    if (behind >= 0) {
      const Kv* plain = static_cast<const Kv*>(side.rows) + behind * p.width;
      for (int c = lane; c < p.width; c += kWarpSize) out[c] = to_float(plain[c]);
      continue;
    }
    CodedRow(side.coded, row, p.width).read(lane, kWarpSize, [&](int c, float x) { out[c] = x; });
  }
}

void check_job(const QuantiseJob& job, const char* name) {
  const QuantLayout& layout = job.layout;
  check_contract(job.n_rows >= 0 && job.n_rows <= INT_MAX, name, "0 <= n_rows < 2^31");
  check_contract(job.width > 0 && job.width <= kMaxWidth, name, "0 < width <= 4096");
  check_contract(layout.bits > 0 && layout.bits <= 8 && 8 % layout.bits == 0, name,
                 "bits is 1, 2, 4 or 8");
  check_contract(
      layout.group > 0 && (layout.along_rows ? job.n_rows : job.width) % layout.group == 0, name,
      "a multiple of the group");
}

}  // namespace

void quantise(const QuantiseParams& params, cudaStream_t stream) {
  const char* const name = "quantise";
  check_contract(params.n_jobs >= 0 && params.n_jobs < 65536, name, "0 <= n_jobs < 2^16");
  std::int64_t blocks = 0;
  std::size_t groups = 0;
  for (int i = 0; i < params.n_jobs; ++i) {
    const QuantiseJob& job = params.host_jobs[i];
    check_job(job, name);
    const bool along_rows = job.layout.along_rows;
    blocks = std::max(blocks, along_rows ? job.n_rows / job.layout.group : job.n_rows);
    groups = std::max(
        groups, static_cast<std::size_t>(along_rows ? job.width : job.width / job.layout.group));
  }
  if (blocks == 0) return;
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(params.n_jobs)),
      .block = dim3(kThreads),
      .shared_bytes = 2 * shared_bytes(groups, sizeof(float)),
      .stream = stream};
  launch(name, params.rows_bf16 ? quantise_kernel<__nv_bfloat16> : quantise_kernel<float>, shape,
         params.jobs);
}

void dequantise(const DequantiseParams& params, cudaStream_t stream) {
  const char* const name = "dequantise";
  check_contract(params.n_sides >= 0 && params.n_sides < 65536, name, "0 <= n_sides < 2^16");
  check_contract(params.width > 0, name, "width > 0");
  if (params.n_sides == 0 || params.longest == 0) return;
  constexpr std::int64_t kMaxBlocks = 4096;
  const std::int64_t blocks = std::min((params.longest + kWarps - 1) / kWarps, kMaxBlocks);
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(params.n_sides)),
      .block = dim3(kThreads),
      .stream = stream};
  launch(name, params.rows_bf16 ? dequantise_kernel<__nv_bfloat16> : dequantise_kernel<float>,
         shape, params);
}

}  // namespace kvbench
