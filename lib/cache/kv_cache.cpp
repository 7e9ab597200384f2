// KvCache: places, counts and statistics; the rows themselves are the business of HeadStore.
#include "cache/kv_cache.hpp"

#include <algorithm>
#include <limits>

#include "cache/kivi_store.hpp"
#include "core/error.hpp"

namespace kvbench {
namespace {

constexpr auto kNoFailure = std::numeric_limits<std::uint32_t>::max();

}  // namespace

void check_kivi(const KiviOptions& options, std::int64_t head_dim, const Backend& backend) {
  if (options.residual % options.group != 0) {
    config_error("kivi: residual={} is not a multiple of group={}", options.residual,
                 options.group);
  }
  if (head_dim % options.group != 0) {
    config_error("kivi: the model's head_dim {} is not a multiple of group={}", head_dim,
                 options.group);
  }
  if (!backend.supports(Feature::quantised_kv)) {
    device_error("backend {} cannot compute {}, which --kv kivi needs; use the cpu backend",
                 backend.name(), feature_name(Feature::quantised_kv));
  }
}

KvCache::KvCache(Backend& backend, const KvCacheShape& shape)
    : backend_(backend),
      shape_(shape),
      heads_(static_cast<std::size_t>(shape.n_layers * shape.n_kv_heads)),
      views_(static_cast<std::size_t>(shape.n_kv_heads)),
      key_targets_(static_cast<std::size_t>(shape.n_kv_heads)),
      value_targets_(static_cast<std::size_t>(shape.n_kv_heads)) {
  if (shape.kivi) {
    check_kivi(*shape.kivi, shape.head_dim, backend);
    failure_ = backend.allocate(sizeof(kNoFailure));
    backend.copy_in(failure_.as<void>(), &kNoFailure, sizeof(kNoFailure));
  }
  const std::size_t row_bytes = static_cast<std::size_t>(shape.head_dim) * dtype_size(shape.dtype);
  for (Head& h : heads_) {
    if (shape.kivi) {
      h.store =
          std::make_unique<KiviStore>(backend, meter_, *shape.kivi, shape.head_dim, shape.dtype);
    } else {
      h.store = std::make_unique<PlainStore>(backend, meter_, row_bytes);
    }
  }
}

void KvCache::reserve(std::int64_t rows) {
  for (Head& h : heads_) h.store->reserve(rows);
}

void KvCache::reserve_waiting(std::int64_t rows) {
  for (Head& h : heads_) h.store->reserve_waiting(rows);
}

KvCache::AppendTarget KvCache::append(std::int64_t layer,
                                      std::span<const std::int32_t> new_positions) {
  for (std::int64_t kv_head = 0; kv_head < shape_.n_kv_heads; ++kv_head) {
    Head& h = head(layer, kv_head);
    const std::int64_t before = h.store->live_bytes();
    const auto rows = h.store->append(static_cast<std::int64_t>(new_positions.size()));
    key_targets_[static_cast<std::size_t>(kv_head)] = rows.keys;
    value_targets_[static_cast<std::size_t>(kv_head)] = rows.values;
    h.slots.append(new_positions);
    live_bytes_ += h.store->live_bytes() - before;
  }
  peak_live_bytes_ = std::max(peak_live_bytes_, live_bytes_);
  return {key_targets_, value_targets_};
}

void KvCache::append_from(KvCache& source, std::int64_t layer, std::int64_t first, std::int64_t end,
                          Backend& backend) {
  KVB_CHECK(!shape_.kivi && !source.shape_.kivi && shape_.dtype == source.shape_.dtype,
            "copying rows between caches of different storage");
  const std::size_t row_bytes =
      static_cast<std::size_t>(shape_.head_dim) * dtype_size(shape_.dtype);
  const auto views = source.view(layer);
  for (std::int64_t kv_head = 0; kv_head < shape_.n_kv_heads; ++kv_head) {
    const KvHeadView& from = views[static_cast<std::size_t>(kv_head)];
    const std::int64_t n = std::min(end, from.length) - first;
    if (n <= 0) continue;
    Head& h = head(layer, kv_head);
    const std::int64_t before = h.store->live_bytes();
    const auto rows = h.store->append(n);
    h.slots.append({from.positions + first, static_cast<std::size_t>(n)});
    live_bytes_ += h.store->live_bytes() - before;
    const std::size_t skipped = static_cast<std::size_t>(first) * row_bytes;
    const std::size_t bytes = static_cast<std::size_t>(n) * row_bytes;
    backend.copy_rows(rows.keys, static_cast<const std::byte*>(from.keys) + skipped, bytes);
    backend.copy_rows(rows.values, static_cast<const std::byte*>(from.values) + skipped, bytes);
  }
  peak_live_bytes_ = std::max(peak_live_bytes_, live_bytes_);
}

void KvCache::copy_from(KvCache& source, Backend& backend) {
  clear();
  for (std::int64_t layer = 0; layer < shape_.n_layers; ++layer) {
    append_from(source, layer, 0, kUnlimited, backend);
  }
  evicted_entries_ = source.evicted_entries_;
  peak_live_bytes_ = source.peak_live_bytes_;
}

std::span<const KvHeadView> KvCache::view(std::int64_t layer) {
  for (std::int64_t kv_head = 0; kv_head < shape_.n_kv_heads; ++kv_head) {
    const Head& h = head(layer, kv_head);
    KvHeadView& view = views_[static_cast<std::size_t>(kv_head)];
    view = h.store->view();
    view.positions = h.slots.positions().data();
    view.length = h.slots.length();
  }
  return views_;
}

std::span<const std::int32_t> KvCache::positions(std::int64_t layer, std::int64_t kv_head) const {
  return head(layer, kv_head).slots.positions();
}

std::int64_t KvCache::length(std::int64_t layer, std::int64_t kv_head) const {
  return head(layer, kv_head).slots.length();
}

std::int64_t KvCache::longest() const {
  std::int64_t longest = 0;
  for (const Head& h : heads_) longest = std::max(longest, h.slots.length());
  return longest;
}

double KvCache::mean_length() const {
  std::int64_t entries = 0;
  for (const Head& h : heads_) entries += h.slots.length();
  return static_cast<double>(entries) / static_cast<double>(heads_.size());
}

void KvCache::keep_runs(Head& h) {
  const std::int64_t bytes = h.store->live_bytes();
  h.slots.keep(runs_);
  h.store->keep(runs_);
  live_bytes_ += h.store->live_bytes() - bytes;
}

void KvCache::evict_run(std::int64_t layer, std::int64_t kv_head, std::int64_t first,
                        std::int64_t count) {
  Head& h = head(layer, kv_head);
  const std::int64_t length = h.slots.length();
  KVB_CHECK(first >= 0 && count >= 0 && first + count <= length, "run {}+{} of {} slots", first,
            count, length);
  if (count == 0) return;
  runs_.clear();
  if (first > 0) runs_.push_back({0, first});
  if (first + count < length) runs_.push_back({first + count, length - first - count});
  keep_runs(h);
  evicted_entries_ += count;
}

void KvCache::keep(std::int64_t layer, std::int64_t kv_head, std::span<const std::int32_t> slots) {
  Head& h = head(layer, kv_head);
  const std::int64_t length = h.slots.length();
  runs_.clear();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::int64_t slot = slots[i];
    KVB_CHECK(slot >= 0 && slot < length && (i == 0 || slot > slots[i - 1]),
              "kept slots must ascend within {}", length);
    if (!runs_.empty() && runs_.back().first + runs_.back().count == slot) {
      ++runs_.back().count;
    } else {
      runs_.push_back({slot, 1});
    }
  }
  const std::int64_t evicted = length - static_cast<std::int64_t>(slots.size());
  if (evicted > 0) keep_runs(h);
  evicted_entries_ += evicted;
}

void KvCache::truncate(std::int64_t layer, std::int64_t kv_head, std::int64_t length) {
  Head& h = head(layer, kv_head);
  KVB_CHECK(length >= 0 && length <= h.slots.length(), "{} of {} slots", length, h.slots.length());
  runs_.clear();
  if (length > 0) runs_.push_back({0, length});
  keep_runs(h);
}

void KvCache::quantise(std::int64_t layer) {
  calls_.clear();
  for (std::int64_t kv_head = 0; kv_head < shape_.n_kv_heads; ++kv_head) {
    Head& h = head(layer, kv_head);
    const std::int64_t bytes = h.store->live_bytes();
    due_.clear();
    h.store->quantise(due_);
    live_bytes_ += h.store->live_bytes() - bytes;
    for (const DueEntries& entries : due_) {
      calls_.push_back({entries.args, failure_.as<std::uint32_t>(), next_id_});
      unchecked_.push_back({layer, kv_head, entries, next_id_});
      KVB_CHECK(entries.args.n_rows < kNoFailure - next_id_, "{} rows in one step", next_id_);
      next_id_ += static_cast<std::uint32_t>(entries.args.n_rows);
    }
  }
  if (!calls_.empty()) {
    backend_.quantise(calls_);
    for (std::int64_t kv_head = 0; kv_head < shape_.n_kv_heads; ++kv_head) {
      head(layer, kv_head).store->release_waiting();
    }
  }
  if (layer + 1 == shape_.n_layers) check_quantised();
}

// Slots are still those of the step: a layer evicts before it quantises.
void KvCache::check_quantised() {
  if (unchecked_.empty()) return;
  std::uint32_t failure = kNoFailure;
  backend_.copy_out(&failure, failure_.as<void>(), sizeof(failure));
  if (failure == kNoFailure) {
    forget_unchecked();
    return;
  }
  // The last call whose ids begin at or before it.
  const auto behind = std::ranges::upper_bound(unchecked_, failure, {}, &Unchecked::first_id);
  KVB_CHECK(behind != unchecked_.begin(), "failure {} of no call", failure);
  const Unchecked call = *std::prev(behind);
  forget_unchecked();
  backend_.copy_in(failure_.as<void>(), &kNoFailure, sizeof(kNoFailure));
  const std::int64_t slot = call.entries.first_slot + (failure - call.first_id);
  data_error(
      "layer {}, KV head {}: non-finite {} in the {} token {}: kivi stores finite numbers, scale "
      "and zero in f16 (at most 65504)",
      call.layer, call.kv_head, call.entries.of_keys ? "key" : "value",
      call.entries.of_keys ? "group that begins at" : "row of",
      positions(call.layer, call.kv_head)[static_cast<std::size_t>(slot)]);
}

std::int64_t KvCache::quantised_rows() const {
  std::int64_t rows = -quantised_before_;
  for (const Head& h : heads_) rows += h.store->quantised_rows();
  return rows;
}

void KvCache::shrink(std::int64_t spare_rows) {
  for (Head& h : heads_) h.store->shrink(spare_rows);
}

void KvCache::clear() {
  for (Head& h : heads_) {
    h.slots.clear();
    h.store->clear();
  }
  live_bytes_ = 0;
  if (unchecked_.empty()) return;
  // A step broke off.
  forget_unchecked();
  backend_.copy_in(failure_.as<void>(), &kNoFailure, sizeof(kNoFailure));
}

void KvCache::reset_statistics() {
  peak_live_bytes_ = live_bytes_;
  evicted_entries_ = 0;
  quantised_before_ += quantised_rows();
  meter_.reset_peak();
}

}  // namespace kvbench
