// The one place where kernels are launched.
#pragma once

#include <cuda_runtime_api.h>

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
  void* pointers[] = {&arguments...};
  check_cuda(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), shape.grid, shape.block,
                              pointers, shape.shared_bytes, shape.stream),
             name);
}

}  // namespace kvbench
