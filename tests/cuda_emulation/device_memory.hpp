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

  // Filled with NaN. Null when the limit does not allow it.
  void* allocate(std::size_t bytes, Kind kind);
  // False when the address was not allocated so.
  bool release(void* address, Kind kind);

  // Whether [address, address + bytes) lies in one allocation of this kind.
  bool contains(const void* address, std::size_t bytes, Kind kind) const;
  // Whether the word is an address of mapped memory that a kernel could not reach.
  bool is_host_pointer(std::uintptr_t word) const;

  std::size_t allocated_bytes() const { return allocated_bytes_; }
  void set_limit(std::size_t bytes) { limit_ = bytes; }
  std::size_t limit() const { return limit_; }

  // While one of these lives, device memory may be touched; AddressSanitizer reports any other
  // access.
  class Access {
   public:
    explicit Access(const DeviceMemory& memory) : memory_(memory) { memory_.open(true); }
    ~Access() { memory_.open(false); }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    const DeviceMemory& memory_;
  };

 private:
  struct Block {
    std::size_t bytes;
    Kind kind;
  };

  void open(bool accessible) const;
  const Block* find(std::uintptr_t address, std::uintptr_t& begin) const;

  std::map<std::uintptr_t, Block> blocks_;  // by first address
  std::size_t allocated_bytes_ = 0;
  std::size_t limit_ = std::size_t{4} << 30;
};

}  // namespace kvbench::emulation
