// Cosine and sine rows in a backend's memory, for whatever rotary positions are asked for.
// Angles are computed in double and only the finished cosines and sines are rounded to f32, so
// that position 15962 is not mistaken for its neighbour.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "core/buffer.hpp"
#include "model/rope.hpp"

namespace kvbench {

class Rotary {
 public:
  Rotary(Backend& backend, const RopeConfig& config) : backend_(backend), config_(config) {}

  // The frequencies of a text of this many tokens (only dynamic scaling cares).
  void set_length(std::int64_t length);
  RopeShape shape() const { return {config_.rotary_dim, config_.interleaved}; }
  const RopeFrequencies& frequencies() const { return frequencies_; }

  // Rows of one use (queries, new keys, ...); they stay valid until that use is filled again.
  class Rows {
   public:
    RopeRows view() const;

   private:
    friend class Rotary;
    Buffer cosine_, sine_;  // [n, rotary_dim / 2]
    std::vector<float> host_cosine_, host_sine_;
    std::vector<std::int32_t> positions_;  // of the rows held now
    const Rotary* filled_by_ = nullptr;    // and for what text length
    std::int64_t text_length_ = -1;
  };
  // One row per position. Nothing is computed when the rows are there already.
  void fill(std::span<const std::int32_t> positions, Rows& rows) const;
  // Rows 0 .. n-1 at least.
  void fill_slots(std::int64_t n, Rows& rows) const;

 private:
  Backend& backend_;
  RopeConfig config_;
  RopeFrequencies frequencies_;
  std::int64_t text_length_ = -1;
};

}  // namespace kvbench
