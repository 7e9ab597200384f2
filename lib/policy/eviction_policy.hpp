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
#include "policy/layer_view.hpp"

namespace kvbench {

// When room is made during decoding.
enum class EvictWhen : std::uint8_t {
  after,  // after a step's forward: its queries see what was kept plus the step's own tokens
  before  // before it: a query sees exactly `capacity` entries, itself included
};

// When a policy that selects does so. One whose kept set follows from positions acts at each step.
enum class EvictTiming : std::uint8_t {
  prefill,  // once, after the last token of the prompt; what follows is kept in full
  decode,   // after the prompt, and then every `interval` steps
  chunked   // after each chunk of the prompt, whose successors see what was kept; not later
};

// What shares one budget.
enum class EvictScope : std::uint8_t {
  layer,  // the KV heads of a layer; a layer selects as soon as its own attention is done
  model   // all layers: they select together, after the prompt (timing `prefill` only)
};

// What a policy promises about itself; fixed at construction.
struct PolicyTraits {
  // Entries per (layer, KV head) between steps; for policies whose heads or layers differ, the
  // mean over them.
  std::int64_t capacity = kUnlimited;
  // In place of a capacity: the share of the prompt to keep, 0 < keep <= 1, rounded down but at
  // least one entry.
  std::optional<double> keep_share;
  // Entries of the prompt that the share does not count: they are kept beside it.
  std::int64_t keep_beside = 0;
  EvictWhen evict = EvictWhen::after;
  EvictTiming timing = EvictTiming::decode;
  EvictScope scope = EvictScope::layer;
  std::int64_t interval = 1;  // decode: steps from one selection to the next
  PositionMode positions = PositionMode::original;
  PolicyNeeds needs;
  // Set when what is kept follows from positions alone: the first `sinks` and the last `recent`
  // tokens. Such policies need no `select`, and any number of tokens can be evaluated at once.
  std::optional<AttentionPattern> kept;
  // With `kept`: what is fed in place of the text's first `sinks` tokens. They are scored as the
  // text has them.
  std::optional<std::int32_t> sink_token;
  // Set for "sliding window with re-computation": nothing is cached between tokens; each token is
  // the last of a fresh forward over this many.
  std::optional<std::int64_t> recompute_length;
};

// What one selection keeps. Heads may keep different numbers.
class KeepList {
 public:
  explicit KeepList(std::size_t n_kv_heads) : slots_(n_kv_heads) {}

  // Slots of a KV head: ascending and unique.
  std::vector<std::int32_t>& operator[](std::size_t kv_head) { return slots_[kv_head]; }
  const std::vector<std::int32_t>& operator[](std::size_t kv_head) const { return slots_[kv_head]; }
  std::size_t size() const { return slots_.size(); }
  void clear();

  // Entries that went although their score equals that of one that stayed.
  std::int64_t ties_at_cut = 0;

 private:
  std::vector<std::vector<std::int32_t>> slots_;  // [n_kv_heads]
};

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  virtual const PolicyTraits& traits() const = 0;
  // Forgets everything about the previous sequence.
  virtual void reset(std::uint64_t seed) { static_cast<void>(seed); }
  // Entries per KV head that each layer keeps (the budgets passed to `select`): `capacity`
  // everywhere, unless the policy divides n_layers * capacity otherwise. `longest` is the most
  // entries that a head can hold when it is cut. per_layer: [n_layers].
  virtual void share_capacity(std::int64_t capacity, std::int64_t longest,
                              std::span<std::int64_t> per_layer) const;
  // Fills `keep`, which has one (empty) list per KV head. Called only where `traits().kept` is
  // not set and the layer's heads hold more than `view.capacity` entries each, on average.
  virtual void select(LayerView& view, KeepList& keep);
  // The same for EvictScope::model, once: `keep` has one entry per layer.
  virtual void select_model(ModelView& view, std::vector<KeepList>& keep);
};

}  // namespace kvbench
