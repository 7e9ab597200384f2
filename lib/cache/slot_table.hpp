// Each slot's place in the text, for one KV head; in host memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/slot_runs.hpp"

namespace kvbench {

class SlotTable {
 public:
  std::int64_t length() const { return static_cast<std::int64_t>(rows_.size()) - begin_; }
  // Ascending; valid until the table changes.
  std::span<const std::int32_t> positions() const {
    return std::span<const std::int32_t>(rows_).subspan(static_cast<std::size_t>(begin_));
  }

  void append(std::span<const std::int32_t> positions) {
    // Rows that eviction left free in front are dropped once they outnumber the live ones.
    if (begin_ > length()) {
      rows_.erase(rows_.begin(), rows_.begin() + begin_);
      begin_ = 0;
    }
    rows_.insert(rows_.end(), positions.begin(), positions.end());
  }
  void keep(std::span<const SlotRun> runs) {
    std::int64_t kept = 0;
    for (const SlotRun& run : runs) kept += run.count;
    begin_ = compact_rows(begin_, runs, [&](std::int64_t to, std::int64_t from, std::int64_t n) {
      const auto source = rows_.begin() + from;
      if (to < from) {
        std::copy(source, source + n, rows_.begin() + to);
      } else {
        std::copy_backward(source, source + n, rows_.begin() + to + n);
      }
    });
    rows_.resize(static_cast<std::size_t>(begin_ + kept));
  }
  void clear() {
    rows_.clear();
    begin_ = 0;
  }

 private:
  std::vector<std::int32_t> rows_;
  std::int64_t begin_ = 0;  // first live row
};

}  // namespace kvbench
