// Device memory as Buffers, and workspaces that only grow.
#pragma once

#include <cstddef>

#include "core/buffer.hpp"

namespace kvbench {

// Uninitialised memory of the current device. DeviceError that says how much was asked for and how
// much is free.
Buffer device_buffer(std::size_t bytes, MemoryMeter* meter = nullptr);

// Scratch memory of one operation: the same block again and again, larger when it must be.
class DeviceWorkspace {
 public:
  // At least this many bytes, contents undefined. Work that uses an earlier, smaller block must
  // have been queued before; growing waits for it.
  template <class T>
  T* get(std::size_t count) {
    reserve(count * sizeof(T));
    return buffer_.as<T>();
  }

 private:
  void reserve(std::size_t bytes);

  Buffer buffer_;
};

}  // namespace kvbench
