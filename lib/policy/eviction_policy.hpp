// What an eviction policy is. A policy decides which entries of a cache stay; it never moves
// memory and never sees a device. The session asks it at the right moments and KvCache::keep does
// the rest. To add one: a file like random.cpp, and a row in registry.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/positions.hpp"

namespace kvbench {

// When room is made during decoding.
enum class EvictWhen : std::uint8_t {
  after,  // after a step's forward: its queries see what was kept plus the step's own tokens
  before  // before it: a query sees exactly `capacity` entries, itself included
};

// What a policy promises about itself; fixed at construction.
struct PolicyTraits {
  // Entries per (layer, KV head) between steps.
  std::int64_t capacity = kUnlimited;
  EvictWhen evict = EvictWhen::after;
  PositionMode positions = PositionMode::original;
  // Set when what is kept follows from positions alone: the first `sinks` and the last `recent`
  // tokens. Such policies need no `select`, and any number of tokens can be evaluated at once.
  std::optional<AttentionPattern> kept;
  // Set for "sliding window with re-computation": nothing is cached between tokens; each token is
  // the last of a fresh forward over this many.
  std::optional<std::int64_t> recompute_length;
};

// One layer, when its entries are over capacity.
struct SelectionInput {
  std::int64_t layer;
  std::int64_t step;      // tokens fed before this one since the last reset
  std::int64_t capacity;  // entries to keep per KV head
  std::span<const std::span<const std::int32_t>> positions;  // [n_kv_heads][length], ascending
};

// Slots to keep, per KV head: ascending, unique, at most `capacity`.
using KeepList = std::vector<std::vector<std::int32_t>>;

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  virtual const PolicyTraits& traits() const = 0;
  // Forgets everything about the previous sequence.
  virtual void reset(std::uint64_t seed) { static_cast<void>(seed); }
  // Fills `keep`, which has one (empty) list per KV head. Called only where `traits().kept` is
  // not set and a head holds more than the capacity.
  virtual void select(const SelectionInput& input, KeepList& keep);
};

}  // namespace kvbench
