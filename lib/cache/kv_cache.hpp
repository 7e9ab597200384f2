// Keys and values of one sequence, per layer and KV head, and each entry's place in the text.
// Entries are really removed: `keep` compacts the rows, `shrink` gives memory back, and the byte
// counts are those of the rows and of the allocator, never of a formula over a mask.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "cache/head_store.hpp"
#include "cache/kivi_options.hpp"
#include "cache/slot_runs.hpp"
#include "cache/slot_table.hpp"
#include "core/buffer.hpp"

namespace kvbench {

struct KvCacheShape {
  std::int64_t n_layers = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;
  DType dtype = DType::f32;  // f32 or bf16; with kivi, of the rows not quantised
  std::optional<KiviOptions> kivi = {};
};

// ConfigError where the head size or the options do not divide, DeviceError where the backend
// cannot quantise.
void check_kivi(const KiviOptions& options, std::int64_t head_dim, const Backend& backend);

class KvCache {
 public:
  // The backend must outlive the cache. Errors as check_kivi.
  KvCache(Backend& backend, const KvCacheShape& shape);
  KvCache(KvCache&&) = delete;

  const KvCacheShape& shape() const { return shape_; }

  // Makes room for `rows` entries in every head, so that appending up to there allocates nothing.
  void reserve(std::int64_t rows);
  // Kivi: makes room for so many more entries in full precision, until the next `quantise`.
  void reserve_waiting(std::int64_t rows);

  // Where append writes: the first free row of every KV head of the layer, valid until the next
  // call. The entries are part of the cache from here on, with these positions.
  struct AppendTarget {
    std::span<void* const> keys;    // [n_kv_heads]
    std::span<void* const> values;  // [n_kv_heads]
  };
  AppendTarget append(std::int64_t layer, std::span<const std::int32_t> positions);

  // Appends copies of slots [first, end) of another cache's layer, as far as each head has them.
  // Both have the same shape, and neither is quantised.
  void append_from(KvCache& source, std::int64_t layer, std::int64_t first, std::int64_t end,
                   Backend& backend);
  // Becomes a copy of it, statistics included.
  void copy_from(KvCache& source, Backend& backend);

  // [n_kv_heads] views, valid until the layer changes.
  std::span<const KvHeadView> view(std::int64_t layer);
  std::span<const std::int32_t> positions(std::int64_t layer, std::int64_t kv_head) const;
  std::int64_t length(std::int64_t layer, std::int64_t kv_head) const;
  std::int64_t longest() const;
  // Entries of a head, mean over layers and KV heads.
  double mean_length() const;

  // Keeps exactly these slots (ascending, unique) of one head; all others are evicted.
  void keep(std::int64_t layer, std::int64_t kv_head, std::span<const std::int32_t> slots);
  // Evicts slots [first, first + count) of one head, moving whichever side is shorter.
  void evict_run(std::int64_t layer, std::int64_t kv_head, std::int64_t first, std::int64_t count);

  // Drops the entries of one head from slot `length` on without counting them as evicted: they
  // were never part of the text.
  void truncate(std::int64_t layer, std::int64_t kv_head, std::int64_t length);
  // Kivi: quantises what is due in this layer; the steps after this one see it. Asked for layer by
  // layer; the last one waits for the backend: DataError where a number was not finite or out of
  // range.
  void quantise(std::int64_t layer);
  // Rows quantised since the statistics were reset, keys and values both, over layers and KV heads.
  std::int64_t quantised_rows() const;

  // Reallocates every head to its length plus `spare_rows`, where that frees memory.
  void shrink(std::int64_t spare_rows);
  // Drops all entries without counting them as evicted; keeps the memory.
  void clear();
  // Starts the eviction count and the peaks afresh.
  void reset_statistics();

  std::int64_t live_bytes() const { return live_bytes_; }
  std::int64_t peak_live_bytes() const { return peak_live_bytes_; }
  std::int64_t allocated_bytes() const { return meter_.allocated_bytes(); }
  std::int64_t peak_allocated_bytes() const { return meter_.peak_bytes(); }
  // Entries evicted since the statistics were reset, summed over layers and KV heads.
  std::int64_t evicted_entries() const { return evicted_entries_; }

 private:
  struct Head {
    SlotTable slots;
    std::unique_ptr<HeadStore> store;
  };

  Head& head(std::int64_t layer, std::int64_t kv_head) {
    return heads_[static_cast<std::size_t>(layer * shape_.n_kv_heads + kv_head)];
  }
  const Head& head(std::int64_t layer, std::int64_t kv_head) const {
    return heads_[static_cast<std::size_t>(layer * shape_.n_kv_heads + kv_head)];
  }
  // Of runs_.
  void keep_runs(Head& head);
  void check_quantised();
  void forget_unchecked() {
    unchecked_.clear();
    next_id_ = 0;
  }

  Backend& backend_;
  KvCacheShape shape_;
  MemoryMeter meter_;
  std::vector<Head> heads_;           // [n_layers * n_kv_heads]
  std::vector<KvHeadView> views_;     // [n_kv_heads], of the layer last viewed
  std::vector<void*> key_targets_;    // [n_kv_heads]
  std::vector<void*> value_targets_;  // [n_kv_heads]
  std::vector<SlotRun> runs_;         // kept slots
  // What was quantised since it was last seen that all could be stored.
  struct Unchecked {
    std::int64_t layer, kv_head;
    DueEntries entries;
    std::uint32_t first_id;
  };
  std::vector<Unchecked> unchecked_;
  std::uint32_t next_id_ = 0;
  Buffer failure_;                   // see QuantiseCall
  std::vector<DueEntries> due_;      // of one head
  std::vector<QuantiseCall> calls_;  // of one layer
  std::int64_t live_bytes_ = 0;
  std::int64_t peak_live_bytes_ = 0;
  std::int64_t evicted_entries_ = 0;
  std::int64_t quantised_before_ = 0;  // rows, when the statistics were reset
};

}  // namespace kvbench
