// How the entries of one KV head are stored: plain rows, or quantised ones (kivi_store.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "cache/row_slab.hpp"
#include "cache/slot_runs.hpp"

namespace kvbench {

// Entries of one side that are to be quantised; those that were the oldest in full precision.
struct DueEntries {
  QuantiseArgs args;
  bool of_keys;
  std::int64_t first_slot;
};

class HeadStore {
 public:
  virtual ~HeadStore() = default;

  // Makes room for `rows` entries, so that appending up to there allocates nothing.
  virtual void reserve(std::int64_t rows) = 0;
  // Makes room for entries that wait for the next `quantise`, beyond those that always do.
  virtual void reserve_waiting(std::int64_t rows) = 0;
  // Where the `n` new entries are to be written, in the cache's dtype.
  struct NewRows {
    void* keys;    // [n, head_dim]
    void* values;  // [n, head_dim]
  };
  virtual NewRows append(std::int64_t n) = 0;
  virtual void keep(std::span<const SlotRun> runs) = 0;
  // Without positions and length; valid until the store changes.
  virtual KvHeadView view() const = 0;
  // Takes what is due for quantised and adds it to `due`, for the caller to do at once; only ever
  // asked for after a step's attention.
  virtual void quantise(std::vector<DueEntries>& due) = 0;
  // Gives back memory that waiting entries needed, once `due` is done.
  virtual void release_waiting() = 0;
  // Rows quantised so far, keys and values both counted.
  virtual std::int64_t quantised_rows() const = 0;
  virtual std::int64_t live_bytes() const = 0;
  virtual void shrink(std::int64_t spare_rows) = 0;
  virtual void clear() = 0;
};

class PlainStore final : public HeadStore {
 public:
  PlainStore(Backend& backend, MemoryMeter& meter, std::size_t row_bytes)
      : rows_(backend, meter, {row_bytes, row_bytes}) {}

  void reserve(std::int64_t rows) override {
    if (rows_.capacity() < rows) rows_.resize(rows);
  }
  void reserve_waiting(std::int64_t) override {}
  NewRows append(std::int64_t n) override {
    rows_.append(n);
    return {rows_.new_row(0, n), rows_.new_row(1, n)};
  }
  void keep(std::span<const SlotRun> runs) override { rows_.keep(runs); }
  KvHeadView view() const override { return {rows_.rows(0), rows_.rows(1), nullptr, 0}; }
  void quantise(std::vector<DueEntries>&) override {}
  void release_waiting() override {}
  std::int64_t quantised_rows() const override { return 0; }
  std::int64_t live_bytes() const override { return rows_.live_bytes(); }
  void shrink(std::int64_t spare_rows) override {
    if (rows_.length() + spare_rows < rows_.capacity()) {
      rows_.resize(rows_.length() + spare_rows);
    }
  }
  void clear() override { rows_.clear(); }

 private:
  RowSlab rows_;  // columns: keys, values
};

}  // namespace kvbench
