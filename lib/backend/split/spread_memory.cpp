// SpreadMemory: reserved addresses, and for every byte the set of devices that have its last value.
#include "backend/split/spread_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

#include "core/error.hpp"

namespace kvbench {
namespace {

using DeviceSet = std::uint64_t;  // bit i: device i
constexpr DeviceSet kEveryDevice = ~DeviceSet{0};

struct Block {
  std::size_t bytes = 0;
  std::vector<Buffer> copies;                // [n_devices], empty where nothing was needed yet
  std::map<std::size_t, DeviceSet> holders;  // from this offset on to the next; zeros: every device

  // Splits the range that holds `offset` there.
  std::map<std::size_t, DeviceSet>::iterator cut(std::size_t offset) {
    const auto at = holders.lower_bound(offset);
    if (at != holders.end() && at->first == offset) return at;
    return holders.emplace_hint(at, offset, std::prev(at)->second);
  }

  void set(std::size_t begin, std::size_t end, DeviceSet devices) {
    if (end < bytes) cut(end);
    const auto first = cut(begin);
    first->second = devices;
    auto next = holders.erase(std::next(first), holders.lower_bound(end));
    // Equal neighbours are one: streams of small writes leave one range.
    if (next != holders.end() && next->second == devices) holders.erase(next);
    if (first != holders.begin() && std::prev(first)->second == devices) holders.erase(first);
  }
};

// All blocks of the process by address: a Buffer's free function has nothing else to find them by.
std::map<std::uintptr_t, Block>& blocks() {
  static std::map<std::uintptr_t, Block> by_address;
  return by_address;
}

struct Place {
  Block& block;
  std::size_t offset;
};

Place find(const void* address, std::size_t bytes) {
  const auto word = reinterpret_cast<std::uintptr_t>(address);
  auto after = blocks().upper_bound(word);
  KVB_CHECK(after != blocks().begin(), "an address that no device of the backend knows");
  --after;
  Block& block = after->second;
  const std::size_t offset = word - after->first;
  KVB_CHECK(offset <= block.bytes && bytes <= block.bytes - offset,
            "{} bytes at {} of a block of {}", bytes, offset, block.bytes);
  return {block, offset};
}

void release(void* address) {
  const auto found = blocks().find(reinterpret_cast<std::uintptr_t>(address));
  ::munmap(address, std::max<std::size_t>(found->second.bytes, 1));
  blocks().erase(found);
}

std::byte* on_device(Backend& device, Block& block, std::size_t index) {
  Buffer& copy = block.copies[index];
  if (copy.bytes() == 0) copy = device.allocate(block.bytes);
  return copy.as<std::byte>();
}

}  // namespace

Buffer SpreadMemory::allocate(std::size_t bytes, MemoryMeter* meter) const {
  void* address = ::mmap(nullptr, std::max<std::size_t>(bytes, 1), PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) device_error("no address space for {} bytes", bytes);
  Block& block = blocks()[reinterpret_cast<std::uintptr_t>(address)];
  block.bytes = bytes;
  block.copies.resize(devices_.size());
  block.holders[0] = kEveryDevice;
  return Buffer(address, bytes, release, meter);
}

std::size_t SpreadMemory::device_of(const void* address, std::size_t fallback) const {
  const Place place = find(address, 0);
  const DeviceSet devices = std::prev(place.block.holders.upper_bound(place.offset))->second;
  if (devices == kEveryDevice) return fallback;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if ((devices >> i & 1) != 0) return i;
  }
  throw InternalError("bytes that no device holds");
}

void* SpreadMemory::fetch(std::size_t device, const void* address, std::size_t bytes) const {
  if (address == nullptr) return nullptr;
  const Place place = find(address, bytes);
  Block& block = place.block;
  std::byte* base = on_device(*devices_[device], block, device);
  const std::size_t end = place.offset + bytes;
  const DeviceSet here = DeviceSet{1} << device;
  for (std::size_t begin = place.offset; begin < end;) {
    const auto range = std::prev(block.holders.upper_bound(begin));
    const auto next = std::next(range);
    const std::size_t until =
        std::min(end, next == block.holders.end() ? block.bytes : next->first);
    const DeviceSet holders = range->second;
    if ((holders & here) == 0) {
      const std::size_t source =
          device_of(static_cast<const std::byte*>(address) + (begin - place.offset), device);
      devices_[device]->copy_from(*devices_[source], base + begin,
                                  block.copies[source].as<std::byte>() + begin, until - begin);
      block.set(begin, until, holders | here);
    }
    begin = until;
  }
  return base + place.offset;
}

void* SpreadMemory::claim(std::size_t device, void* address, std::size_t bytes) const {
  if (address == nullptr) return nullptr;
  const Place place = find(address, bytes);
  std::byte* base = on_device(*devices_[device], place.block, device);
  if (bytes > 0) place.block.set(place.offset, place.offset + bytes, DeviceSet{1} << device);
  return base + place.offset;
}

}  // namespace kvbench
