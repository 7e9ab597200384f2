// Memory for packed weights, in huge pages where the system has them: reading weights is what
// decoding waits for, and with small pages a good part of that is looking up addresses.
#pragma once

#include <cstddef>
#include <memory>

namespace kvbench {

class WeightArena {
 public:
  // Uninitialised, aligned to 64 bytes; lives as long as the pointer. DeviceError if there is none.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);

 private:
  std::shared_ptr<std::byte> slab_;  // of which `used_` bytes are given out
  std::size_t size_ = 0;
  std::size_t used_ = 0;
};

}  // namespace kvbench
