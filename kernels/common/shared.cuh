// A block's dynamic shared memory, handed out array by array. All shared memory of all kernels
// comes from here. Tests replace this file by a twin that gives each array its own heap block.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace kvbench {

// What an array takes out of the arena; a launch asks for the sum over its arrays.
__host__ __device__ constexpr std::size_t shared_bytes(std::size_t count,
                                                       std::size_t element_bytes) {
  return (count * element_bytes + 15) / 16 * 16;
}

// Every thread of the block makes one and takes the same arrays in the same order.
class SharedArena {
 public:
  // Uninitialised and aligned to 16 bytes: [count].
  template <class T>
  __device__ T* take(int count) {
    extern __shared__ uint4 block_memory[];
    char* array = reinterpret_cast<char*>(block_memory) + used_;
    used_ += shared_bytes(static_cast<std::size_t>(count), sizeof(T));
    return reinterpret_cast<T*>(array);
  }

 private:
  std::size_t used_ = 0;
};

}  // namespace kvbench
