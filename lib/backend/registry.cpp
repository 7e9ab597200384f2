// Table of backends, best first.
#include "backend/registry.hpp"

#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "core/error.hpp"
#ifdef KVB_WITH_CUDA
#include "backend/cuda/cuda_backend.hpp"
#include "backend/split/split_backend.hpp"
#endif

namespace kvbench {
namespace {

std::string_view nothing() {
  return {};
}

std::unique_ptr<Backend> make_cpu(int threads, std::span<const int> devices) {
  if (!devices.empty()) {
    device_error("device {} was asked for, but backend cpu has no devices", devices.front());
  }
  return std::make_unique<CpuBackend>(threads);
}

#ifdef KVB_WITH_CUDA
std::unique_ptr<Backend> make_cuda(int threads, std::span<const int> devices) {
  if (devices.size() < 2) {
    return std::make_unique<CudaBackend>(
        threads, CudaOptions{.device = devices.empty() ? 0 : devices.front()});
  }
  std::vector<std::unique_ptr<Backend>> parts;
  for (const int device : devices) {
    parts.push_back(std::make_unique<CudaBackend>(threads, CudaOptions{.device = device}));
  }
  return std::make_unique<SplitBackend>(std::move(parts));
}
#endif

constexpr BackendSpec kBackends[] = {
#ifdef KVB_WITH_CUDA
    {"cuda", "own CUDA kernels and cuBLAS on one GPU or several", cuda_obstacle, make_cuda},
#endif
    {"cpu", "oneDNN matrix products and own SIMD kernels", nothing, make_cpu},
};

}  // namespace

std::span<const BackendSpec> backends() {
  return kBackends;
}

std::unique_ptr<Backend> make_backend(std::string_view name, int threads,
                                      std::span<const int> devices) {
  std::string known = "auto";
  for (const BackendSpec& spec : kBackends) {
    const std::string_view obstacle = spec.obstacle();
    if (name == spec.name || (name == "auto" && obstacle.empty())) {
      if (!obstacle.empty()) device_error("backend {}: {}", spec.name, obstacle);
      return spec.make(threads, devices);
    }
    known += fmt::format(", {}", spec.name);
  }
  config_error("unknown backend '{}'; this build has: {}", name, known);
}

}  // namespace kvbench
