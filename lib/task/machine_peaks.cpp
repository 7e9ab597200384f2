// Both peaks are taken through the backend's own product, on matrices whose shape suits it.
#include "task/machine_peaks.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "core/clock.hpp"

namespace kvbench {
namespace {

std::unique_ptr<LinearWeight> square_matrix(Backend& backend, DType compute, std::int64_t width) {
  const std::vector<float> ones(static_cast<std::size_t>(width * width), 1.0f);
  const TensorView view{
      reinterpret_cast<const std::byte*>(ones.data()), DType::f32, {width, width}};
  return backend.make_linear({&view, 1}, {}, compute);
}

// Fewest seconds of one call.
template <class Work>
double fastest(Backend& backend, int tries, Work&& work) {
  double best = 0.0;
  for (int i = 0; i <= tries; ++i) {  // the first one warms up
    backend.synchronize();
    const auto start = Clock::now();
    work();
    backend.synchronize();
    const double seconds = seconds_since(start);
    if (i == 1 || (i > 1 && seconds < best)) best = seconds;
  }
  return best;
}

}  // namespace

MachinePeaks measure_peaks(Backend& backend, DType compute, const PeakEffort& effort) {
  const std::size_t element = dtype_size(compute);
  Buffer x =
      backend.allocate(static_cast<std::size_t>(effort.product_rows * effort.width) * element);
  Buffer y = backend.allocate(static_cast<std::size_t>(effort.product_rows * effort.width) *
                              sizeof(float));
  const auto multiply = [&](const LinearWeight& weight, std::int64_t n_rows) {
    backend.linear(weight,
                   {.x = x.as<void>(), .y = y.as<float>(), .n_rows = n_rows, .accumulate = false});
  };
  std::vector<std::unique_ptr<LinearWeight>> matrices;
  std::int64_t bytes = 0;
  while (bytes < effort.bytes_read) {
    matrices.push_back(square_matrix(backend, compute, effort.width));
    bytes += static_cast<std::int64_t>(matrices.back()->bytes());
  }
  MachinePeaks peaks;
  peaks.flops_per_s =
      2.0 * static_cast<double>(effort.product_rows * effort.width * effort.width) /
      fastest(backend, effort.tries, [&] { multiply(*matrices.front(), effort.product_rows); });
  peaks.read_bytes_per_s = static_cast<double>(bytes) / fastest(backend, effort.tries, [&] {
                             for (const auto& matrix : matrices) multiply(*matrix, 1);
                           });
  return peaks;
}

MachinePeaks best_of(const MachinePeaks& a, const MachinePeaks& b) {
  return {.read_bytes_per_s = std::max(a.read_bytes_per_s, b.read_bytes_per_s),
          .flops_per_s = std::max(a.flops_per_s, b.flops_per_s)};
}

}  // namespace kvbench
