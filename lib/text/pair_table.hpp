// Hash table from a pair of 32-bit numbers to a 64-bit value: merges of a BPE model, and pairs of
// characters. Open addressing, because a long word makes one look-up per merge and character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvbench {

class PairTable {
 public:
  // Room for `count` pairs; more may be inserted.
  explicit PairTable(std::size_t count = 0) { rehash(count); }

  // A pair that is there already gets the new value.
  void insert(std::uint32_t first, std::uint32_t second, std::uint64_t value) {
    if ((size_ + 1) * 2 > slots_.size()) rehash(slots_.size());
    Slot& slot = slots_[find_slot(key_of(first, second))];
    if (!slot.used) ++size_;
    slot = {key_of(first, second), value, true};
  }

  // The value of a pair, or nullptr.
  const std::uint64_t* find(std::uint32_t first, std::uint32_t second) const {
    const Slot& slot = slots_[find_slot(key_of(first, second))];
    return slot.used ? &slot.value : nullptr;
  }

  std::size_t size() const { return size_; }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint64_t value = 0;
    bool used = false;
  };

  static std::uint64_t key_of(std::uint32_t first, std::uint32_t second) {
    return (std::uint64_t{first} << 32) | second;
  }

  // The slot of `key`, or the free one where it belongs. At most half of the slots are used.
  std::size_t find_slot(std::uint64_t key) const {
    std::uint64_t hash = (key ^ (key >> 29)) * 0x9E3779B97F4A7C15u;  // Fibonacci hashing
    hash ^= hash >> 32;
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].used && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  void rehash(std::size_t count) {
    std::size_t slot_count = 16;
    while (slot_count < count * 2 + 2) slot_count *= 2;
    std::vector<Slot> old(slot_count);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.used) slots_[find_slot(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace kvbench
