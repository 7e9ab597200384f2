// KvCache: one slab of rows per layer, KV head and side. Live rows are contiguous but need not
// start at row 0: a streaming policy evicts behind its sinks at every step, and moving a few sink
// rows up is much cheaper than moving all recent rows down.
#include "cache/kv_cache.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace kvbench {

KvCache::KvCache(Backend& backend, const KvCacheShape& shape)
    : backend_(backend),
      shape_(shape),
      heads_(static_cast<std::size_t>(shape.n_layers * shape.n_kv_heads)),
      views_(static_cast<std::size_t>(shape.n_kv_heads)),
      key_targets_(static_cast<std::size_t>(shape.n_kv_heads)),
      value_targets_(static_cast<std::size_t>(shape.n_kv_heads)) {}

void KvCache::reserve(std::int64_t rows) {
  for (Head& h : heads_) {
    if (h.rows < rows) reallocate(h, rows);
  }
}

void KvCache::reallocate(Head& h, std::int64_t rows) {
  const std::size_t bytes = static_cast<std::size_t>(rows) * row_bytes();
  // One side at a time, so that at most one slab exists twice.
  for (Buffer* side : {&h.keys, &h.values}) {
    Buffer grown = backend_.allocate(bytes, &meter_);
    if (h.length > 0) {
      backend_.copy_rows(grown.as<void>(), side->as<std::byte>() + h.begin * row_bytes(),
                         static_cast<std::size_t>(h.length) * row_bytes());
    }
    *side = std::move(grown);
  }
  std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
  std::copy_n(h.positions.begin() + h.begin, h.length, positions.begin());
  h.positions = std::move(positions);
  h.begin = 0;
  h.rows = rows;
}

void KvCache::make_room(Head& h, std::int64_t n_new) {
  if (h.begin + h.length + n_new <= h.rows) return;
  const std::int64_t needed = h.length + n_new;
  // Sliding the live rows to the front pays only if it buys many appends; else grow.
  if (h.begin > 0 && needed + h.length / 8 <= h.rows) {
    move_rows(h, 0, h.begin, h.length);
    h.begin = 0;
    return;
  }
  reallocate(h, std::max(needed + needed / 4, needed + 16));
}

KvCache::AppendTarget KvCache::append(std::int64_t layer,
                                      std::span<const std::int32_t> new_positions) {
  const auto n = static_cast<std::int64_t>(new_positions.size());
  for (std::int64_t kv_head = 0; kv_head < shape_.n_kv_heads; ++kv_head) {
    Head& h = head(layer, kv_head);
    make_room(h, n);
    const std::int64_t first = h.begin + h.length;
    const std::size_t offset = static_cast<std::size_t>(first) * row_bytes();
    key_targets_[static_cast<std::size_t>(kv_head)] = h.keys.as<std::byte>() + offset;
    value_targets_[static_cast<std::size_t>(kv_head)] = h.values.as<std::byte>() + offset;
    std::copy(new_positions.begin(), new_positions.end(), h.positions.begin() + first);
    h.length += n;
  }
  live_rows_ += n * shape_.n_kv_heads;
  peak_live_rows_ = std::max(peak_live_rows_, live_rows_);
  return {key_targets_, value_targets_};
}

std::span<const KvHeadView> KvCache::view(std::int64_t layer) {
  for (std::int64_t kv_head = 0; kv_head < shape_.n_kv_heads; ++kv_head) {
    const Head& h = head(layer, kv_head);
    const std::size_t offset = static_cast<std::size_t>(h.begin) * row_bytes();
    views_[static_cast<std::size_t>(kv_head)] = {h.keys.as<std::byte>() + offset,
                                                 h.values.as<std::byte>() + offset,
                                                 h.positions.data() + h.begin, h.length};
  }
  return views_;
}

std::span<const std::int32_t> KvCache::positions(std::int64_t layer, std::int64_t kv_head) const {
  const Head& h = head(layer, kv_head);
  return {h.positions.data() + h.begin, static_cast<std::size_t>(h.length)};
}

std::int64_t KvCache::length(std::int64_t layer, std::int64_t kv_head) const {
  return head(layer, kv_head).length;
}

std::int64_t KvCache::longest() const {
  std::int64_t longest = 0;
  for (const Head& h : heads_) longest = std::max(longest, h.length);
  return longest;
}

void KvCache::move_rows(Head& h, std::int64_t dst, std::int64_t src, std::int64_t count) {
  if (count == 0 || dst == src) return;
  const RowMove moves[] = {{h.keys.as<void>(), dst, src, count},
                           {h.values.as<void>(), dst, src, count}};
  backend_.move_rows(moves, row_bytes());
  if (dst < src) {
    std::copy_n(h.positions.begin() + src, count, h.positions.begin() + dst);
  } else {
    std::copy_backward(h.positions.begin() + src, h.positions.begin() + src + count,
                       h.positions.begin() + dst + count);
  }
}

void KvCache::count_evicted(std::int64_t entries) {
  live_rows_ -= entries;
  evicted_entries_ += entries;
}

void KvCache::evict_run(std::int64_t layer, std::int64_t kv_head, std::int64_t first,
                        std::int64_t count) {
  Head& h = head(layer, kv_head);
  KVB_CHECK(first >= 0 && count >= 0 && first + count <= h.length, "run {}+{} of {} slots", first,
            count, h.length);
  if (count == 0) return;
  const std::int64_t behind = h.length - first - count;
  if (first <= behind) {
    move_rows(h, h.begin + count, h.begin, first);
    h.begin += count;
  } else {
    move_rows(h, h.begin + first, h.begin + first + count, behind);
  }
  h.length -= count;
  count_evicted(count);
}

void KvCache::keep(std::int64_t layer, std::int64_t kv_head, std::span<const std::int32_t> slots) {
  Head& h = head(layer, kv_head);
  const auto kept = static_cast<std::int64_t>(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    KVB_CHECK(slots[i] >= 0 && slots[i] < h.length && (i == 0 || slots[i] > slots[i - 1]),
              "kept slots must ascend within {}", h.length);
  }
  if (kept == h.length) return;
  // The slots that stay in front stay where they are; a single gap is the streaming case.
  std::int64_t front = 0;
  while (front < kept && slots[static_cast<std::size_t>(front)] == front) ++front;
  const std::int64_t gap = h.length - kept;
  if (front == kept || slots[static_cast<std::size_t>(front)] == front + gap) {
    evict_run(layer, kv_head, front, gap);
    return;
  }
  std::int64_t to = front;
  for (std::int64_t i = front; i < kept;) {
    const std::int64_t from = slots[static_cast<std::size_t>(i)];
    std::int64_t run = 1;
    while (i + run < kept && slots[static_cast<std::size_t>(i + run)] == from + run) ++run;
    move_rows(h, h.begin + to, h.begin + from, run);
    to += run;
    i += run;
  }
  h.length = kept;
  count_evicted(gap);
}

void KvCache::truncate(std::int64_t layer, std::int64_t kv_head, std::int64_t length) {
  Head& h = head(layer, kv_head);
  KVB_CHECK(length >= 0 && length <= h.length, "{} of {} slots", length, h.length);
  live_rows_ -= h.length - length;
  h.length = length;
}

void KvCache::shrink(std::int64_t spare_rows) {
  for (Head& h : heads_) {
    if (h.length + spare_rows < h.rows) reallocate(h, h.length + spare_rows);
  }
}

void KvCache::clear() {
  for (Head& h : heads_) {
    h.begin = 0;
    h.length = 0;
  }
  live_rows_ = 0;
}

void KvCache::reset_statistics() {
  peak_live_rows_ = live_rows_;
  evicted_entries_ = 0;
  meter_.reset_peak();
}

}  // namespace kvbench
