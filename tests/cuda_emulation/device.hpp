// The emulated device: its memory, its queue of work, and its fault. One for the process.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "tests/cuda_emulation/block.hpp"
#include "tests/cuda_emulation/device_memory.hpp"

namespace kvbench::emulation {

class Device {
 public:
  static Device& instance();

  DeviceMemory memory;
  int count = 1;

  // The fault's error, once there is one; nothing else succeeds after it, as in CUDA.
  cudaError_t status() const { return fault_.empty() ? cudaSuccess : cudaErrorLaunchFailure; }
  const std::string& fault() const { return fault_; }
  void reset();

  // Work returns what went wrong, or an empty string.
  using Work = std::function<std::string()>;
  cudaError_t enqueue(Work work);
  // Runs all queued work. Work of all streams runs in the order of its calls.
  cudaError_t synchronize();
  std::size_t operations_run() const { return operations_run_; }

  // Why the launch is refused, or cudaSuccess.
  cudaError_t check_launch(const LaunchRecord& launch) const;
  void allow_shared_bytes(const void* kernel, std::size_t bytes) { allowed_[kernel] = bytes; }

 private:
  std::deque<Work> queue_;
  std::string fault_;
  std::size_t operations_run_ = 0;
  std::map<const void*, std::size_t> allowed_;  // dynamic shared memory, where asked for
};

}  // namespace kvbench::emulation
