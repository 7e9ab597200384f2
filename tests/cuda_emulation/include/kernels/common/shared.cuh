// Host twin of kernels/common/shared.cuh: each array is a heap block of its own.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace kvbench {

constexpr std::size_t shared_bytes(std::size_t count, std::size_t element_bytes) {
  return (count * element_bytes + 15) / 16 * 16;
}

class SharedArena {
 public:
  template <class T>
  T* take(int count) {
    return static_cast<T*>(
        emulation::shared_array(index_++, static_cast<std::size_t>(count) * sizeof(T)));
  }

 private:
  std::size_t index_ = 0;
};

}  // namespace kvbench
