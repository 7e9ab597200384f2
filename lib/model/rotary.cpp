// Rotary: positions to rows of cosines and sines.
#include "model/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvbench {

void Rotary::set_length(std::int64_t length) {
  frequencies_ = rope_frequencies(config_, length);
  text_length_ = length;
}

RopeRows Rotary::Rows::view() const {
  return {cosine_.as<float>(), sine_.as<float>()};
}

void Rotary::fill(std::span<const std::int32_t> positions, Rows& rows) const {
  if (rows.filled_by_ == this && rows.text_length_ == text_length_ &&
      std::equal(positions.begin(), positions.end(), rows.positions_.begin(),
                 rows.positions_.end())) {
    return;
  }
  rows.filled_by_ = this;
  rows.text_length_ = text_length_;
  const std::size_t half = frequencies_.inv_freq.size();
  const std::size_t n = positions.size() * half;
  rows.host_cosine_.resize(n);
  rows.host_sine_.resize(n);
  for (std::size_t row = 0; row < positions.size(); ++row) {
    for (std::size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(positions[row]) * frequencies_.inv_freq[i];
      rows.host_cosine_[row * half + i] =
          static_cast<float>(std::cos(angle) * frequencies_.attention_factor);
      rows.host_sine_[row * half + i] =
          static_cast<float>(std::sin(angle) * frequencies_.attention_factor);
    }
  }
  if (rows.cosine_.bytes() < n * sizeof(float)) {
    rows.cosine_ = backend_.allocate(n * sizeof(float));
    rows.sine_ = backend_.allocate(n * sizeof(float));
  }
  backend_.copy_in(rows.cosine_.as<void>(), rows.host_cosine_.data(), n * sizeof(float));
  backend_.copy_in(rows.sine_.as<void>(), rows.host_sine_.data(), n * sizeof(float));
  rows.positions_.assign(positions.begin(), positions.end());
}

void Rotary::fill_slots(std::int64_t n, Rows& rows) const {
  if (rows.filled_by_ == this && rows.text_length_ == text_length_ &&
      static_cast<std::int64_t>(rows.positions_.size()) >= n) {
    return;
  }
  // In steps, so that a growing cache does not recompute its table at every token.
  constexpr std::int64_t kStep = 1024;
  std::vector<std::int32_t> slots(static_cast<std::size_t>((n + kStep - 1) / kStep * kStep));
  std::iota(slots.begin(), slots.end(), 0);
  fill(slots, rows);
}

}  // namespace kvbench
