// Bookkeeping of emulated allocations. They come from malloc, so that AddressSanitizer knows their
// ends, and are aligned as cudaMalloc's are.
#include "tests/cuda_emulation/device_memory.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace kvbench::emulation {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::uintptr_t kPage = 4096;

}  // namespace

void* DeviceMemory::allocate(std::size_t bytes, Kind kind, int device) {
  ++allocations_;
  if (kind == Kind::device && (bytes > limit_ || allocated_bytes(device) > limit_ - bytes)) {
    return nullptr;
  }
  void* address = nullptr;
  if (::posix_memalign(&address, kAlignment, bytes) != 0) return nullptr;
  std::memset(address, 0xFF, bytes);
  blocks_[reinterpret_cast<std::uintptr_t>(address)] = {bytes, kind, device};
  if (kind == Kind::device) {
    allocated_bytes_[device] += bytes;
    open(false);
  }
  return address;
}

bool DeviceMemory::release(void* address, Kind kind) {
  const auto found = blocks_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == blocks_.end() || found->second.kind != kind) return false;
  if (kind == Kind::device) {
    open(true);
    allocated_bytes_[found->second.device] -= found->second.bytes;
  }
  blocks_.erase(found);
  std::free(address);
  open(false);
  return true;
}

const DeviceMemory::Block* DeviceMemory::find(std::uintptr_t address, std::uintptr_t& begin) const {
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return nullptr;
  --after;
  begin = after->first;
  return &after->second;
}

bool DeviceMemory::contains(const void* address, std::size_t bytes, Kind kind) const {
  const auto word = reinterpret_cast<std::uintptr_t>(address);
  std::uintptr_t begin = 0;
  const Block* block = find(word, begin);
  return block != nullptr && block->kind == kind && word - begin <= block->bytes &&
         bytes <= block->bytes - (word - begin);
}

int DeviceMemory::device_of(std::uintptr_t address) const {
  std::uintptr_t begin = 0;
  const Block* block = find(address, begin);
  const bool inside =
      block != nullptr && block->kind == Kind::device && address - begin < block->bytes;
  return inside ? block->device : -1;
}

std::size_t DeviceMemory::allocated_bytes(int device) const {
  const auto found = allocated_bytes_.find(device);
  return found == allocated_bytes_.end() ? 0 : found->second;
}

std::size_t DeviceMemory::allocated_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [device, of_device] : allocated_bytes_) bytes += of_device;
  return bytes;
}

bool DeviceMemory::is_host_pointer(std::uintptr_t word) const {
  // Two neighbouring 32-bit sizes read as one word look like a low address, where AddressSanitizer
  // has its shadow. A position-independent program has its code, heap and stacks above.
  constexpr std::uintptr_t kLowest = std::uintptr_t{1} << 45;
  constexpr std::uintptr_t kHighest = std::uintptr_t{1} << 47;
  if (word < kLowest || word >= kHighest) return false;
  std::uintptr_t begin = 0;
  const Block* block = find(word, begin);
  if (block != nullptr && word - begin <= block->bytes) return false;
  unsigned char resident = 0;
  return ::mincore(reinterpret_cast<void*>(word / kPage * kPage), 1, &resident) == 0;
}

void DeviceMemory::open([[maybe_unused]] bool accessible) const {
#if defined(__SANITIZE_ADDRESS__)
  for (const auto& [address, block] : blocks_) {
    if (block.kind != Kind::device) continue;
    if (accessible) {
      __asan_unpoison_memory_region(reinterpret_cast<void*>(address), block.bytes);
    } else {
      __asan_poison_memory_region(reinterpret_cast<void*>(address), block.bytes);
    }
  }
#endif
}

}  // namespace kvbench::emulation
