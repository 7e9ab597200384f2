// Keys and values of one sequence, per layer and KV head, and each entry's place in the text.
// Entries are really removed: `keep` compacts the rows, `shrink` gives memory back, and the byte
// counts are those of the rows and of the allocator, never of a formula over a mask.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "core/buffer.hpp"

namespace kvbench {

struct KvCacheShape {
  std::int64_t n_layers = 0;
  std::int64_t n_kv_heads = 0;
  std::int64_t head_dim = 0;
  DType dtype = DType::f32;  // f32 or bf16
};

class KvCache {
 public:
  // The backend must outlive the cache.
  KvCache(Backend& backend, const KvCacheShape& shape);
  KvCache(KvCache&&) = delete;

  const KvCacheShape& shape() const { return shape_; }

  // Makes room for `rows` entries in every head, so that appending up to there allocates nothing.
  void reserve(std::int64_t rows);

  // Where append writes: the first free row of every KV head of the layer, valid until the next
  // call. The entries are part of the cache from here on, with these positions.
  struct AppendTarget {
    std::span<void* const> keys;    // [n_kv_heads]
    std::span<void* const> values;  // [n_kv_heads]
  };
  AppendTarget append(std::int64_t layer, std::span<const std::int32_t> positions);

  // [n_kv_heads] views, valid until the layer changes.
  std::span<const KvHeadView> view(std::int64_t layer);
  std::span<const std::int32_t> positions(std::int64_t layer, std::int64_t kv_head) const;
  std::int64_t length(std::int64_t layer, std::int64_t kv_head) const;
  std::int64_t longest() const;

  // Keeps exactly these slots (ascending, unique) of one head; all others are evicted.
  void keep(std::int64_t layer, std::int64_t kv_head, std::span<const std::int32_t> slots);
  // Evicts slots [first, first + count) of one head, moving whichever side is shorter.
  void evict_run(std::int64_t layer, std::int64_t kv_head, std::int64_t first, std::int64_t count);

  // Drops the entries of one head from slot `length` on without counting them as evicted: they
  // were never part of the text.
  void truncate(std::int64_t layer, std::int64_t kv_head, std::int64_t length);

  // Reallocates every head to its length plus `spare_rows`, where that frees memory.
  void shrink(std::int64_t spare_rows);
  // Drops all entries without counting them as evicted; keeps the memory.
  void clear();
  // Starts the eviction count and the peaks afresh.
  void reset_statistics();

  std::int64_t live_bytes() const { return live_rows_ * entry_bytes(); }
  std::int64_t peak_live_bytes() const { return peak_live_rows_ * entry_bytes(); }
  std::int64_t allocated_bytes() const { return meter_.allocated_bytes(); }
  std::int64_t peak_allocated_bytes() const { return meter_.peak_bytes(); }
  // Entries evicted since the statistics were reset, summed over layers and KV heads.
  std::int64_t evicted_entries() const { return evicted_entries_; }

 private:
  struct Head {
    Buffer keys;                          // [rows, head_dim]
    Buffer values;                        // [rows, head_dim]
    std::vector<std::int32_t> positions;  // [rows]
    std::int64_t rows = 0;
    std::int64_t begin = 0;  // first live row; evicting near the front advances it
    std::int64_t length = 0;
  };

  Head& head(std::int64_t layer, std::int64_t kv_head) {
    return heads_[static_cast<std::size_t>(layer * shape_.n_kv_heads + kv_head)];
  }
  const Head& head(std::int64_t layer, std::int64_t kv_head) const {
    return heads_[static_cast<std::size_t>(layer * shape_.n_kv_heads + kv_head)];
  }
  std::size_t row_bytes() const {
    return static_cast<std::size_t>(shape_.head_dim) * dtype_size(shape_.dtype);
  }
  // Bytes of one entry of one KV head: its key and its value.
  std::int64_t entry_bytes() const { return 2 * static_cast<std::int64_t>(row_bytes()); }

  void make_room(Head& head, std::int64_t n_new);
  void reallocate(Head& head, std::int64_t rows);
  void move_rows(Head& head, std::int64_t dst, std::int64_t src, std::int64_t count);
  void count_evicted(std::int64_t entries);

  Backend& backend_;
  KvCacheShape shape_;
  MemoryMeter meter_;
  std::vector<Head> heads_;           // [n_layers * n_kv_heads]
  std::vector<KvHeadView> views_;     // [n_kv_heads], of the layer last viewed
  std::vector<void*> key_targets_;    // [n_kv_heads]
  std::vector<void*> value_targets_;  // [n_kv_heads]
  std::int64_t live_rows_ = 0;
  std::int64_t peak_live_rows_ = 0;
  std::int64_t evicted_entries_ = 0;
};

}  // namespace kvbench
