// Allocation on the device.
#include "backend/cuda/device_memory.hpp"

#include <cuda_runtime_api.h>

#include "backend/cuda/step_capture.hpp"
#include "core/error.hpp"
#include "kernels/common/cuda_error.hpp"

namespace kvbench {

namespace {

// A failing free has nobody to tell: whatever broke the device shows at the next call.
void free_on_device(void* data) {
  try {
    flush_captures();  // recorded work may use it
  } catch (const DeviceError&) {
  }
  cudaFree(data);
}

}  // namespace

Buffer device_buffer(std::size_t bytes, MemoryMeter* meter) {
  flush_captures();
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes == 0 ? 1 : bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // out of memory is not the device's end: forget it
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    int device = 0;
    cudaGetDevice(&device);
    device_error("out of GPU memory: {} bytes asked for, {} of {} free on device {}", bytes,
                 free_bytes, total_bytes, device);
  }
  check_cuda(status, "cudaMalloc");
  return Buffer(data, bytes, free_on_device, meter);
}

void DeviceWorkspace::reserve(std::size_t bytes) {
  if (bytes <= buffer_.bytes()) return;
  buffer_ = Buffer();  // cudaFree waits for the work that uses it
  buffer_ = device_buffer(bytes + bytes / 4);
}

}  // namespace kvbench
