// Runs of slots, and the moves that leave only some of them: shared by everything that keeps one
// row per slot.
#pragma once

#include <cstdint>
#include <span>

namespace kvbench {

// Slots [first, first + count), count > 0.
struct SlotRun {
  std::int64_t first;
  std::int64_t count;
};

// Closes up `kept` (ascending, apart) within rows that begin at row `begin`, by calls of
// move(dst_row, src_row, n_rows). Returns the row where the first kept one then stands. One gap,
// the streaming case, costs the moves of its shorter side only.
template <class Move>
std::int64_t compact_rows(std::int64_t begin, std::span<const SlotRun> kept, Move move) {
  if (kept.empty()) return 0;
  const SlotRun& front = kept.front();
  if (kept.size() == 2 && front.count <= kept[1].count) {
    const std::int64_t to = begin + kept[1].first - front.count;
    move(to, begin + front.first, front.count);
    return to;
  }
  std::int64_t to = begin + front.first + front.count;
  for (const SlotRun& run : kept.subspan(1)) {
    move(to, begin + run.first, run.count);
    to += run.count;
  }
  return begin + front.first;
}

}  // namespace kvbench
