// Learned attention sinks (StreamingLLM, section 3.3): embeddings that were trained to stand before
// every text and that are no row of the vocabulary. They come from a tensor of the checkpoint or
// from a file beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/tensor.hpp"

namespace kvbench {

class Checkpoint;

struct SinkSource {
  std::string tensor = {};          // its name; may be empty where the file holds one tensor
  std::filesystem::path file = {};  // safetensors; empty: the checkpoint

  bool given() const { return !tensor.empty() || !file.empty(); }
};

class SinkRows {
 public:
  SinkRows() = default;
  // Reads [hidden] or [n, hidden]. DataError names file, tensor and shape; an empty source is no
  // rows.
  SinkRows(const SinkSource& source, const Checkpoint& checkpoint, std::int64_t hidden);

  std::int64_t count() const { return count_; }
  // [count, hidden] f32; valid while this lives, moved or not.
  TensorView view() const;
  // Of the values, wherever they came from; empty without rows.
  std::string content_hash() const;

 private:
  std::int64_t count_ = 0;
  std::vector<float> values_;  // [count, hidden]
};

}  // namespace kvbench
