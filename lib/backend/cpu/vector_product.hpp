// A packed matrix times one vector, as decoding has it: bound by the reading of the weights, which
// therefore pass by once, in the order in which they lie, and are shared evenly over the threads.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"

namespace kvbench::tile {

// oneDNN's layouts BA16a64b (f32) and BA16a64b2a (bf16): blocks of 64 columns of x W^T, each with
// its inner features one after the other, in pairs where there are two bf16 to a lane.
struct VectorProduct {
  static constexpr std::int64_t kBlock = 64;  // columns
  static constexpr std::int64_t kUnit = 16;   // columns that a thread may begin or end with

  const void* weights;  // [blocks, padded_in, kBlock]; bf16: [blocks, padded_in / 2, kBlock, 2]
  DType dtype;          // f32 or bf16
  std::int64_t in_features;
  std::int64_t padded_in;  // multiple of 16 (f32) or 32 (bf16); the padding holds zeros
  std::int64_t out_features;
  const float* x;     // [padded_in], zeros behind in_features
  const float* bias;  // [out_features] or null
  float* y;           // [out_features]
  bool accumulate;    // y += instead of y =
};

// Columns [first, last), both multiples of kUnit, or last = out_features. The sum of a column does
// not depend on the range it is in.
void multiply_vector(const VectorProduct& p, std::int64_t first, std::int64_t last);

}  // namespace kvbench::tile
