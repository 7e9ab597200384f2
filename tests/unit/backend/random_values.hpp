// Reproducible numbers for operation tests, and what they become in another dtype.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/dtype.hpp"
#include "core/rng.hpp"

namespace kvbench::test {

// Uniform in [-limit, limit).
inline std::vector<float> random_floats(Rng& rng, std::int64_t n, double limit = 1.7) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = static_cast<float>((2.0 * rng.uniform() - 1.0) * limit);
  return values;
}

inline std::vector<std::uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(), float_to_bf16);
  return bits;
}

inline std::vector<float> widen(const std::vector<std::uint16_t>& bits) {
  std::vector<float> values(bits.size());
  std::transform(bits.begin(), bits.end(), values.begin(), bf16_to_float);
  return values;
}

// What is left of the values once they have been stored in that dtype.
inline std::vector<float> rounded(const std::vector<float>& values, DType dtype) {
  return dtype == DType::bf16 ? widen(to_bf16(values)) : values;
}

// Largest difference; a NaN counts as infinite.
template <class A, class B>
double largest_gap(const A& found, const B& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double largest = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double gap = std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
    if (std::isnan(gap)) return INFINITY;
    largest = std::max(largest, gap);
  }
  return largest;
}

// The bound for a result of size `scale` that is then stored in that dtype.
inline double tolerance(DType dtype, double scale = 1.0) {
  return dtype == DType::bf16 ? scale * 0x1p-8 : scale * 2e-5;
}

}  // namespace kvbench::test
