// Batching: a run joins the batch unless it reads or writes what an earlier run of the batch
// writes. Long runs are cut into pieces, in the direction in which a memmove may go.
#include "backend/cuda/row_moves.hpp"

#include <algorithm>

namespace kvbench {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;
constexpr std::size_t kMaxRuns = 4096;

bool overlap(std::int64_t a, std::int64_t n_a, std::int64_t b, std::int64_t n_b) {
  return a < b + n_b && b < a + n_a;
}

}  // namespace

void RowMover::move(std::span<const RowMove> moves, std::size_t row_bytes) {
  row_bytes_ = row_bytes;
  batch_.clear();  // a call that ran out of memory has left its own
  batch_rows_ = 0;
  const auto most =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(kWorkspaceBytes / row_bytes));
  for (const RowMove& run : moves) {
    if (run.n_rows <= 0 || run.dst_row == run.src_row) continue;
    const bool down = run.dst_row < run.src_row;
    for (std::int64_t done = 0; done < run.n_rows; done += most) {
      const std::int64_t n = std::min(most, run.n_rows - done);
      const std::int64_t offset = down ? done : run.n_rows - done - n;
      add({run.slab, run.dst_row + offset, run.src_row + offset, n});
    }
  }
  flush();
}

bool RowMover::must_wait(const RowMove& move) const {
  if (batch_.size() >= kMaxRuns ||
      static_cast<std::size_t>(batch_rows_ + move.n_rows) * row_bytes_ > kWorkspaceBytes) {
    return !batch_.empty();
  }
  return std::any_of(batch_.begin(), batch_.end(), [&](const RowRun& earlier) {
    return earlier.slab == move.slab &&
           (overlap(earlier.dst_row, earlier.n_rows, move.src_row, move.n_rows) ||
            overlap(earlier.dst_row, earlier.n_rows, move.dst_row, move.n_rows));
  });
}

void RowMover::add(const RowMove& move) {
  if (must_wait(move)) flush();
  batch_.push_back({move.slab, move.dst_row, move.src_row, move.n_rows, batch_rows_});
  batch_rows_ += move.n_rows;
}

void RowMover::flush() {
  if (batch_.empty()) return;
  Staging::Block block = staging_.open(batch_.size() * sizeof(RowRun) + Staging::kArrayPadding);
  const auto n = static_cast<std::int64_t>(batch_.size());
  auto* runs = block.add<RowRun>(n);
  std::copy(batch_.begin(), batch_.end(), runs);
  block.send();
  const auto longest =
      std::max_element(batch_.begin(), batch_.end(),
                       [](const RowRun& a, const RowRun& b) { return a.n_rows < b.n_rows; });
  move_rows(
      {.runs = block.on_device(runs),
       .workspace = workspace_.get<std::byte>(static_cast<std::size_t>(batch_rows_) * row_bytes_),
       .n_runs = n,
       .longest_run = longest->n_rows,
       .row_bytes = row_bytes_},
      stream_);
  batch_.clear();
  batch_rows_ = 0;
}

}  // namespace kvbench
