// Table of backends, best first.
#include "backend/registry.hpp"

#include <string>

#include "backend/cpu/cpu_backend.hpp"
#include "core/error.hpp"
#ifdef KVB_WITH_CUDA
#include "backend/cuda/cuda_backend.hpp"
#endif

namespace kvbench {
namespace {

std::string_view nothing() {
  return {};
}

std::unique_ptr<Backend> make_cpu(int threads) {
  return std::make_unique<CpuBackend>(threads);
}

#ifdef KVB_WITH_CUDA
std::unique_ptr<Backend> make_cuda(int threads) {
  return std::make_unique<CudaBackend>(threads);
}
#endif

constexpr BackendSpec kBackends[] = {
#ifdef KVB_WITH_CUDA
    {"cuda", "own CUDA kernels and cuBLAS on one GPU", cuda_obstacle, make_cuda},
#endif
    {"cpu", "oneDNN matrix products and own SIMD kernels", nothing, make_cpu},
};

}  // namespace

std::span<const BackendSpec> backends() {
  return kBackends;
}

std::unique_ptr<Backend> make_backend(std::string_view name, int threads) {
  std::string known = "auto";
  for (const BackendSpec& spec : kBackends) {
    const std::string_view obstacle = spec.obstacle();
    if (name == spec.name || (name == "auto" && obstacle.empty())) {
      if (!obstacle.empty()) device_error("backend {}: {}", spec.name, obstacle);
      return spec.make(threads);
    }
    known += fmt::format(", {}", spec.name);
  }
  config_error("unknown backend '{}'; this build has: {}", name, known);
}

}  // namespace kvbench
