// Allocations of the emulated device: what is device memory, what is pinned, who may touch it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace kvbench::emulation {

class DeviceMemory {
 public:
  enum class Kind : std::uint8_t { device, pinned };

  // Filled with NaN, on one of the devices. Null when its limit does not allow it.
  void* allocate(std::size_t bytes, Kind kind, int device);
  // False when the address was not allocated so.
  bool release(void* address, Kind kind);

  // Whether [address, address + bytes) lies in one allocation of this kind.
  bool contains(const void* address, std::size_t bytes, Kind kind) const;
  // The device whose memory holds the address; -1: none.
  int device_of(std::uintptr_t address) const;
  // Whether the word is an address of mapped memory that a kernel could not reach.
  bool is_host_pointer(std::uintptr_t word) const;

  std::size_t allocated_bytes() const;
  std::size_t allocated_bytes(int device) const;
  // Allocations of either kind so far.
  std::size_t allocations() const { return allocations_; }
  // Of each device.
  void set_limit(std::size_t bytes) { limit_ = bytes; }
  std::size_t limit() const { return limit_; }

  // While one of these lives, device memory may be touched; AddressSanitizer reports any other
  // access.
  class Access {
   public:
    explicit Access(const DeviceMemory& memory) : memory_(memory) {
      if (memory_.accesses_++ == 0) memory_.open(true);
    }
    ~Access() {
      if (--memory_.accesses_ == 0) memory_.open(false);
    }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    const DeviceMemory& memory_;
  };

 private:
  struct Block {
    std::size_t bytes;
    Kind kind;
    int device;
  };

  void open(bool accessible) const;
  const Block* find(std::uintptr_t address, std::uintptr_t& begin) const;

  std::map<std::uintptr_t, Block> blocks_;      // by first address
  std::map<int, std::size_t> allocated_bytes_;  // of device memory, by device
  std::size_t allocations_ = 0;
  mutable int accesses_ = 0;  // Access objects alive
  std::size_t limit_ = std::size_t{4} << 30;
};

}  // namespace kvbench::emulation
