// Highway implementation of multiply_vector, once per instruction set; the last section picks one.
#include "backend/cpu/vector_product.hpp"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/vector_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kvbench::tile::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that a unit is whole vectors.
using F32 = hn::CappedTag<float, VectorProduct::kUnit>;
using Vec = hn::Vec<F32>;
constexpr F32 kF32;
constexpr hn::RebindToUnsigned<F32> kU32;

// sums [kVectors * lanes] = x . weights of columns that begin at `column` of a block.
template <int kVectors>
HWY_INLINE void sum_columns(const float* block, const VectorProduct& p, std::int64_t column,
                            float* sums) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  Vec sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(kF32);
  const float* row = block + column;
  for (std::int64_t k = 0; k < p.in_features; ++k, row += VectorProduct::kBlock) {
    const Vec x = hn::Set(kF32, p.x[k]);
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = hn::MulAdd(x, hn::LoadU(kF32, row + v * lanes), sum[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], kF32, sums + v * lanes);
}

// The same where a lane holds the weights of two inner features, the first in its lower half.
template <int kVectors>
HWY_INLINE void sum_columns(const std::uint32_t* block, const VectorProduct& p, std::int64_t column,
                            float* sums) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  const auto upper = hn::Set(kU32, 0xFFFF0000u);
  Vec even[kVectors];
  Vec odd[kVectors];
  for (int v = 0; v < kVectors; ++v) even[v] = odd[v] = hn::Zero(kF32);
  const std::uint32_t* row = block + column;
  for (std::int64_t k = 0; k < p.in_features; k += 2, row += VectorProduct::kBlock) {
    const Vec x_even = hn::Set(kF32, p.x[k]);
    const Vec x_odd = hn::Set(kF32, p.x[k + 1]);
    for (int v = 0; v < kVectors; ++v) {
      const auto pair = hn::LoadU(kU32, row + v * lanes);
      even[v] = hn::MulAdd(x_even, hn::BitCast(kF32, hn::ShiftLeft<16>(pair)), even[v]);
      odd[v] = hn::MulAdd(x_odd, hn::BitCast(kF32, hn::And(pair, upper)), odd[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    hn::StoreU(hn::Add(even[v], odd[v]), kF32, sums + v * lanes);
  }
}

HWY_INLINE void finish(const VectorProduct& p, const float* sums, std::int64_t column,
                       std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    float value = sums[i];
    if (p.bias != nullptr) value += p.bias[column + i];
    if (p.accumulate) value += p.y[column + i];
    p.y[column + i] = value;
  }
}

// `Lane` is what holds the weights of one column: a float, or two bf16 in 32 bits.
template <class Lane>
HWY_INLINE void multiply_range(const VectorProduct& p, std::int64_t first, std::int64_t last) {
  constexpr std::int64_t kBlock = VectorProduct::kBlock;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  const std::int64_t lanes_per_block =
      p.padded_in * kBlock / static_cast<std::int64_t>(sizeof(Lane) / dtype_size(p.dtype));
  float sums[kBlock];
  for (std::int64_t column = first; column < last;) {
    const Lane* block = static_cast<const Lane*>(p.weights) + column / kBlock * lanes_per_block;
    const std::int64_t inside = column % kBlock;
    const std::int64_t end = std::min(last - column, kBlock - inside);
    const std::int64_t vectors = (std::min(end, 4 * lanes) + lanes - 1) / lanes;
    std::int64_t width = lanes;
    if (vectors == 4 && inside % (4 * lanes) == 0) {
      width = 4 * lanes;
      sum_columns<4>(block, p, inside, sums);
    } else if (vectors >= 2) {
      width = 2 * lanes;
      sum_columns<2>(block, p, inside, sums);
    } else {
      sum_columns<1>(block, p, inside, sums);
    }
    const std::int64_t n = std::min(width, end);
    finish(p, sums, column, n);
    column += n;
  }
}

void MultiplyVector(const VectorProduct& p, std::int64_t first, std::int64_t last) {
  if (p.dtype == DType::f32) {
    multiply_range<float>(p, first, last);
  } else {
    multiply_range<std::uint32_t>(p, first, last);
  }
}

}  // namespace kvbench::tile::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvbench::tile {

HWY_EXPORT(MultiplyVector);

void multiply_vector(const VectorProduct& p, std::int64_t first, std::int64_t last) {
  HWY_DYNAMIC_DISPATCH(MultiplyVector)(p, first, last);
}

}  // namespace kvbench::tile
#endif  // HWY_ONCE
