// Rows in a backend's memory that grow at the end and lose rows anywhere: one buffer per column,
// all columns moving together. Live rows are contiguous but need not start at row 0: a streaming
// policy evicts behind its sinks at every step, and moving a few sink rows up is much cheaper than
// moving all recent rows down.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "cache/slot_runs.hpp"
#include "core/buffer.hpp"

namespace kvbench {

class RowSlab {
 public:
  // One column per entry of `row_bytes`. Backend and meter must outlive the slab.
  RowSlab(Backend& backend, MemoryMeter& meter, const std::vector<std::size_t>& row_bytes);

  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }
  // Of the live rows, all columns.
  std::int64_t live_bytes() const { return length_ * row_bytes_of_all_; }
  // Row 0 of a column, and its first row behind the live ones.
  const void* rows(std::size_t column) const {
    const Column& c = columns_[column];
    return c.buffer.as<std::byte>() + static_cast<std::size_t>(begin_) * c.row_bytes;
  }

  // Makes `n` rows part of the slab; `new_row` says where they are to be written.
  void append(std::int64_t n);
  void* new_row(std::size_t column, std::int64_t n) { return row_at(column, begin_ + length_ - n); }
  // Keeps exactly these rows (ascending runs).
  void keep(std::span<const SlotRun> runs);
  void drop_front(std::int64_t n);
  void clear() { begin_ = length_ = 0; }
  // Reallocates to this many rows, not fewer than the live ones.
  void resize(std::int64_t rows);

 private:
  struct Column {
    Buffer buffer;  // [capacity, row_bytes]
    std::size_t row_bytes;
  };
  std::byte* row_at(std::size_t column, std::int64_t row) {
    Column& c = columns_[column];
    return c.buffer.as<std::byte>() + static_cast<std::size_t>(row) * c.row_bytes;
  }
  void move(std::int64_t to, std::int64_t from, std::int64_t n);

  Backend& backend_;
  MemoryMeter& meter_;
  std::vector<Column> columns_;
  std::vector<RowMove> moves_;  // of the call at work; kept for its memory
  std::int64_t row_bytes_of_all_ = 0;
  std::int64_t capacity_ = 0;
  std::int64_t begin_ = 0;
  std::int64_t length_ = 0;
};

}  // namespace kvbench
