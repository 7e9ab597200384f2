// RowSlab: growing, sliding and closing up.
#include "cache/row_slab.hpp"

#include <algorithm>

namespace kvbench {

RowSlab::RowSlab(Backend& backend, MemoryMeter& meter, const std::vector<std::size_t>& row_bytes)
    : backend_(backend), meter_(meter) {
  for (const std::size_t bytes : row_bytes) {
    columns_.push_back({Buffer{}, bytes});
    row_bytes_of_all_ += static_cast<std::int64_t>(bytes);
  }
}

void RowSlab::resize(std::int64_t rows) {
  rows = std::max(rows, length_);
  // One column at a time, so that at most one exists twice.
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    Buffer grown = backend_.allocate(static_cast<std::size_t>(rows) * column.row_bytes, &meter_);
    if (length_ > 0) {
      backend_.copy_rows(grown.as<void>(), row_at(i, begin_),
                         static_cast<std::size_t>(length_) * column.row_bytes);
    }
    column.buffer = std::move(grown);
  }
  begin_ = 0;
  capacity_ = rows;
}

void RowSlab::append(std::int64_t n) {
  const std::int64_t needed = length_ + n;
  if (length_ == 0) begin_ = 0;
  if (begin_ + needed > capacity_) {
    // Sliding the live rows to the front pays only if it buys many appends; else grow.
    if (begin_ > 0 && needed + length_ / 8 <= capacity_) {
      move(0, begin_, length_);
      begin_ = 0;
    } else {
      resize(std::max(needed + needed / 4, needed + 16));
    }
  }
  length_ = needed;
}

void RowSlab::keep(std::span<const SlotRun> runs) {
  std::int64_t kept = 0;
  for (const SlotRun& run : runs) kept += run.count;
  begin_ = compact_rows(
      begin_, runs, [&](std::int64_t to, std::int64_t from, std::int64_t n) { move(to, from, n); });
  length_ = kept;
}

void RowSlab::drop_front(std::int64_t n) {
  begin_ += n;
  length_ -= n;
}

// Columns of the same width in one call.
void RowSlab::move(std::int64_t to, std::int64_t from, std::int64_t n) {
  if (n == 0 || to == from) return;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    moves_.push_back({columns_[i].buffer.as<void>(), to, from, n});
    if (i + 1 < columns_.size() && columns_[i + 1].row_bytes == columns_[i].row_bytes) continue;
    backend_.move_rows(moves_, columns_[i].row_bytes);
    moves_.clear();
  }
}

}  // namespace kvbench
