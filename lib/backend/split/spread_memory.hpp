// Memory of a backend that consists of several devices: one range of addresses for its users, and
// on each device a copy of what that device reads or writes. An address is a name only; nobody can
// read there, so one that reaches a kernel untranslated shows at once.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "backend/backend.hpp"
#include "core/buffer.hpp"

namespace kvbench {

class SpreadMemory {
 public:
  // The devices must outlive it, and it the buffers that it allocates.
  explicit SpreadMemory(std::span<const std::unique_ptr<Backend>> devices) : devices_(devices) {}

  // Zeroed. A device gives memory for it once something of it is needed there.
  Buffer allocate(std::size_t bytes, MemoryMeter* meter) const;

  // The device that wrote last at the address; `fallback` where none has.
  std::size_t device_of(const void* address, std::size_t fallback) const;

  // Where [address, address + bytes) lies on a device. Null stays null.
  // Holds what was written last, copied from another device if need be.
  template <class T>
  const T* read(std::size_t device, const T* address, std::size_t bytes) const {
    return static_cast<const T*>(fetch(device, address, bytes));
  }
  // All of it is about to be written there.
  template <class T>
  T* write(std::size_t device, T* address, std::size_t bytes) const {
    return static_cast<T*>(claim(device, address, bytes));
  }
  // Some of it is about to be written there, or it is read and written.
  template <class T>
  T* update(std::size_t device, T* address, std::size_t bytes) const {
    fetch(device, address, bytes);
    return write(device, address, bytes);
  }

 private:
  void* fetch(std::size_t device, const void* address, std::size_t bytes) const;
  void* claim(std::size_t device, void* address, std::size_t bytes) const;

  std::span<const std::unique_ptr<Backend>> devices_;
};

}  // namespace kvbench
