// Device memory for a test, filled from and read back to the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/common/cuda_error.hpp"

namespace kvbench::test {

// Ends this test's process with CTest's skip code where no CUDA device answers.
inline void require_device() {
  int n_devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&n_devices);
  if (status == cudaSuccess && n_devices > 0) return;
  std::printf("skipped: no CUDA device (%s)\n", cudaGetErrorString(status));
  std::exit(77);
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& host) : size_(host.size()) {
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, size_ * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(memory);
    check_cuda(cudaMemcpy(data_, host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
               "cudaMemcpy");
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return data_; }

  std::vector<T> to_host() const {
    std::vector<T> host(size_);
    check_cuda(cudaMemcpy(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
               "cudaMemcpy");
    return host;
  }

 private:
  std::size_t size_;
  T* data_ = nullptr;
};

}  // namespace kvbench::test
