// Slabs of whole huge pages, given out piece by piece; a slab goes when its last piece does.
#include "backend/cpu/weight_arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "core/error.hpp"

namespace kvbench {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kSlab = 4 * kHugePage;

std::size_t round_up(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

std::shared_ptr<std::byte> make_slab(std::size_t bytes) {
  void* memory = std::aligned_alloc(kHugePage, bytes);
  if (memory == nullptr) device_error("out of memory: {} bytes of weights", bytes);
  // A wish: where huge pages are off, small ones serve.
  madvise(memory, bytes, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(memory), [](std::byte* slab) { std::free(slab); }};
}

}  // namespace

std::shared_ptr<std::byte> WeightArena::allocate(std::size_t bytes) {
  const std::size_t rounded = round_up(bytes, kAlignment);
  if (rounded > size_ - used_) {
    size_ = std::max(kSlab, round_up(rounded, kHugePage));
    slab_ = make_slab(size_);
    used_ = 0;
  }
  std::byte* piece = slab_.get() + used_;
  used_ += rounded;
  return {slab_, piece};
}

}  // namespace kvbench
