// The messages of CUDA failures.
#include "kernels/common/cuda_error.hpp"

#include "core/error.hpp"

namespace kvbench {

void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  device_error("{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

void check_contract(bool holds, const char* kernel, const char* contract) {
  if (holds) return;
  throw InternalError(
      fmt::format("kernel {} was called outside its contract: {}", kernel, contract));
}

}  // namespace kvbench
