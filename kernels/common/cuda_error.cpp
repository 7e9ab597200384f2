// The messages of CUDA failures.
#include "kernels/common/cuda_error.hpp"

#include <string>

#include "core/error.hpp"

namespace kvbench {
namespace {

thread_local const char* last_kernel = nullptr;

}  // namespace

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  const std::string after =
      last_kernel == nullptr ? std::string() : fmt::format("; last kernel queued: {}", last_kernel);
  device_error("{}: {} ({}){}", what, cudaGetErrorString(status), cudaGetErrorName(status), after);
}

void note_launch(const char* kernel) {
  last_kernel = kernel;
}

void check_contract(bool holds, const char* kernel, const char* contract) {
  if (holds) return;
  throw InternalError(
      fmt::format("kernel {} was called outside its contract: {}", kernel, contract));
}

}  // namespace kvbench
