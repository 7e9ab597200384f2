// The one place where kernels are launched.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

#include "kernels/common/cuda_error.hpp"

namespace kvbench {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;  // dynamic shared memory of a block
  cudaStream_t stream = nullptr;
};

// Queues a kernel. A launch that the device refuses throws DeviceError here, with the kernel's
// name; a fault inside the kernel shows at the stream's next synchronisation, as CUDA has it.
template <class... Params>
void launch(const char* name, void (*kernel)(Params...), const LaunchShape& shape,
            std::type_identity_t<Params>... arguments) {
  // What a block may have without asking.
  constexpr std::size_t kPlainSharedBytes = 48 * 1024;
  if (shape.shared_bytes > kPlainSharedBytes) {
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shape.shared_bytes)),
               name);
  }
  void* pointers[sizeof...(Params) + 1] = {&arguments..., nullptr};
  check_cuda(
      cudaLaunchKernel(kernel, shape.grid, shape.block, pointers, shape.shared_bytes, shape.stream),
      name);
  note_launch(name);
}

}  // namespace kvbench
