// Highway implementation of the tile products, once per instruction set; the last section picks
// one.
#include "backend/cpu/product_kernel.hpp"

#include <algorithm>

#include "core/dtype.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/product_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace kvbench::tile::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using Vec = hn::Vec<F32>;
constexpr F32 kF32;
constexpr hn::RebindToUnsigned<F32> kU32;

// ---- one lane times another ----

struct Floats {
  using Lane = float;
  using LaneVec = Vec;
  static HWY_INLINE LaneVec broadcast(float lane) { return hn::Set(kF32, lane); }
  static HWY_INLINE LaneVec load(const float* lanes) { return hn::LoadU(kF32, lanes); }
  static HWY_INLINE Vec multiply_add(LaneVec a, LaneVec b, Vec sum) {
    return hn::MulAdd(a, b, sum);
  }
};

struct WidenedPairs {
  using Lane = std::uint32_t;
  using LaneVec = hn::Vec<decltype(kU32)>;
  static HWY_INLINE LaneVec broadcast(std::uint32_t lane) { return hn::Set(kU32, lane); }
  static HWY_INLINE LaneVec load(const std::uint32_t* lanes) { return hn::LoadU(kU32, lanes); }
  static HWY_INLINE Vec lower(LaneVec pairs) { return hn::BitCast(kF32, hn::ShiftLeft<16>(pairs)); }
  static HWY_INLINE Vec upper(LaneVec pairs) {
    return hn::BitCast(kF32, hn::And(pairs, hn::Set(kU32, 0xFFFF0000u)));
  }
  static HWY_INLINE Vec multiply_add(LaneVec a, LaneVec b, Vec sum) {
    return hn::MulAdd(lower(a), lower(b), hn::MulAdd(upper(a), upper(b), sum));
  }
};

#if HWY_TARGET == HWY_AVX3
// Written out, because this Highway has no instruction set with AVX512-BF16.
struct NativePairs : WidenedPairs {
  static HWY_INLINE Vec multiply_add(LaneVec a, LaneVec b, Vec sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
    return sum;
  }
};
#else
using NativePairs = WidenedPairs;
#endif

// ---- product ----

// Vectors of columns per register tile: with 6 rows, 24 of 32 registers or 12 of 16.
#if HWY_TARGET <= HWY_AVX3
constexpr int kWide = 4;
#else
constexpr int kWide = 2;
#endif

template <class Op, int kRows, int kVectors>
HWY_INLINE void product_tile(const ProductOf<typename Op::Lane>& p, std::int64_t row,
                             std::int64_t column) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  Vec sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      const float* c = p.c + (row + r) * p.n_columns + column + v * lanes;
      sum[r][v] = p.accumulate ? hn::LoadU(kF32, c) : hn::Zero(kF32);
    }
  }
  const typename Op::Lane* a = p.a + row * p.a_row;
  const typename Op::Lane* b = p.b + column;
  for (std::int64_t i = 0; i < p.n_inner; ++i, a += p.a_inner, b += p.n_columns) {
    typename Op::LaneVec right[kVectors];
    for (int v = 0; v < kVectors; ++v) right[v] = Op::load(b + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const typename Op::LaneVec left = Op::broadcast(a[r * p.a_row]);
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = Op::multiply_add(left, right[v], sum[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[r][v], kF32, p.c + (row + r) * p.n_columns + column + v * lanes);
    }
  }
}

template <class Op, int kVectors>
HWY_INLINE void product_columns(const ProductOf<typename Op::Lane>& p, std::int64_t column) {
  std::int64_t row = 0;
  for (; row + 6 <= p.n_rows; row += 6) product_tile<Op, 6, kVectors>(p, row, column);
  switch (p.n_rows - row) {
    case 5:
      product_tile<Op, 5, kVectors>(p, row, column);
      break;
    case 4:
      product_tile<Op, 4, kVectors>(p, row, column);
      break;
    case 3:
      product_tile<Op, 3, kVectors>(p, row, column);
      break;
    case 2:
      product_tile<Op, 2, kVectors>(p, row, column);
      break;
    case 1:
      product_tile<Op, 1, kVectors>(p, row, column);
      break;
    default:
      break;
  }
}

template <class Op>
HWY_INLINE void product_of(const ProductOf<typename Op::Lane>& p) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  std::int64_t column = 0;
  for (; column + kWide * lanes <= p.n_columns; column += kWide * lanes) {
    product_columns<Op, kWide>(p, column);
  }
  for (; column < p.n_columns; column += lanes) product_columns<Op, 1>(p, column);
}

void Product(const ProductArgs& p) {
  product_of<Floats>(p);
}

void PairProduct(const PairProductArgs& p, bool native) {
  if (native) {
    product_of<NativePairs>(p);
  } else {
    product_of<WidenedPairs>(p);
  }
}

bool HasNativePairs() {
#if HWY_TARGET == HWY_AVX3
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

// ---- packing ----

// The bf16 nearest to each float in the upper half of its lane; a NaN stays a (quiet) NaN.
HWY_INLINE hn::Vec<decltype(kU32)> rounded_upper(Vec value) {
  const auto bits = hn::BitCast(kU32, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(kU32, 1u));
  const auto rounded = hn::Add(bits, hn::Add(hn::Set(kU32, 0x7FFFu), odd));
  const auto nan = hn::RebindMask(kU32, hn::IsNaN(value));
  const auto quiet = hn::Or(bits, hn::Set(kU32, 0x00400000u));
  return hn::And(hn::IfThenElse(nan, quiet, rounded), hn::Set(kU32, 0xFFFF0000u));
}

// Row i is written after rows 2 i and 2 i + 1, at or before them, have been read.
void PackFloatRows(float* rows, std::int64_t n_rows, std::int64_t n_columns) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  for (std::int64_t row = 0; row < n_rows; row += 2) {
    const float* first = rows + row * n_columns;
    auto* out = reinterpret_cast<std::uint32_t*>(rows + row / 2 * n_columns);
    for (std::int64_t i = 0; i < n_columns; i += lanes) {
      const auto lower = hn::ShiftRight<16>(rounded_upper(hn::LoadU(kF32, first + i)));
      const bool alone = row + 1 == n_rows;
      const auto upper =
          alone ? hn::Zero(kU32) : rounded_upper(hn::LoadU(kF32, first + n_columns + i));
      hn::StoreU(hn::Or(lower, upper), kU32, out + i);
    }
  }
}

void PackStoredRows(const std::uint16_t* rows, std::int64_t n_rows, std::int64_t n_columns,
                    std::uint32_t* out) {
  const hn::Rebind<std::uint16_t, F32> u16;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  const std::int64_t whole = n_columns / lanes * lanes;
  for (std::int64_t row = 0; row < n_rows; row += 2, out += n_columns) {
    const std::uint16_t* first = rows + row * n_columns;
    const bool alone = row + 1 == n_rows;
    const std::uint16_t* second = first + n_columns;
    for (std::int64_t i = 0; i < whole; i += lanes) {
      const auto lower = hn::PromoteTo(kU32, hn::LoadU(u16, first + i));
      const auto upper = alone ? hn::Zero(kU32) : hn::PromoteTo(kU32, hn::LoadU(u16, second + i));
      hn::StoreU(hn::Or(lower, hn::ShiftLeft<16>(upper)), kU32, out + i);
    }
    for (std::int64_t i = whole; i < n_columns; ++i) {
      const std::uint32_t upper = alone ? 0 : second[i];
      out[i] = first[i] | upper << 16;
    }
  }
}

}  // namespace kvbench::tile::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvbench::tile {

HWY_EXPORT(Product);
HWY_EXPORT(PairProduct);
HWY_EXPORT(HasNativePairs);
HWY_EXPORT(PackFloatRows);
HWY_EXPORT(PackStoredRows);

void product(const ProductArgs& args) {
  HWY_DYNAMIC_DISPATCH(Product)(args);
}

void product(const PairProductArgs& args) {
  HWY_DYNAMIC_DISPATCH(PairProduct)(args, multiplies_pairs());
}

bool multiplies_pairs() {
  return HWY_DYNAMIC_DISPATCH(HasNativePairs)();
}

void pack_row_pairs(float* rows, std::int64_t n_rows, std::int64_t n_columns) {
  HWY_DYNAMIC_DISPATCH(PackFloatRows)(rows, n_rows, n_columns);
}

void pack_row_pairs(const std::uint16_t* rows, std::int64_t n_rows, std::int64_t n_columns,
                    std::uint32_t* out) {
  HWY_DYNAMIC_DISPATCH(PackStoredRows)(rows, n_rows, n_columns, out);
}

}  // namespace kvbench::tile
#endif  // HWY_ONCE
