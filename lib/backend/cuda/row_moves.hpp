// Moves of cache rows, in the order in which they are given, as few pairs of kernels.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/staging.hpp"
#include "kernels/move_rows.hpp"

namespace kvbench {

class RowMover {
 public:
  RowMover(Staging& staging, cudaStream_t stream) : staging_(staging), stream_(stream) {}

  // Same result as one memmove after another.
  void move(std::span<const RowMove> moves, std::size_t row_bytes);

 private:
  void add(const RowMove& move);
  bool must_wait(const RowMove& move) const;
  void flush();

  Staging& staging_;
  cudaStream_t stream_;
  DeviceWorkspace workspace_;
  std::size_t row_bytes_ = 0;
  std::vector<RowRun> batch_;  // runs that are read before any of them is written
  std::int64_t batch_rows_ = 0;
};

}  // namespace kvbench
