// Highway implementations of the tile loops. The file is compiled once per instruction set
// (foreach_target re-includes it); the last section picks one at run time.
#include "backend/cpu/tile_kernels.hpp"

#include <cmath>
#include <limits>

#include "core/dtype.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/tile_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace kvbench::tile::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using I32 = hn::RebindToSigned<F32>;
using Vec = hn::Vec<F32>;
constexpr F32 kF32;
constexpr I32 kI32;

// Highway's exp makes 0 of a NaN; here a NaN must reach the result, where it is found and named.
HWY_INLINE Vec exp(Vec x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(kF32, x));
}

// ---- softmax ----

// The scores of one vector of queries, keys below one another.
template <class Args>
HWY_INLINE void mask_column(const Args& p, std::int64_t query) {
  const auto first = hn::LoadU(kI32, p.first_key + query);
  const auto last = hn::LoadU(kI32, p.last_key + query);
  const Vec masked = hn::Set(kF32, -std::numeric_limits<float>::infinity());
  for (std::int64_t key = 0; key < p.n_keys; ++key) {
    float* score = p.scores + key * p.n_queries + query;
    const auto index = hn::Set(kI32, static_cast<std::int32_t>(key));
    const auto visible = hn::AndNot(hn::VecFromMask(kI32, hn::Lt(index, first)),
                                    hn::VecFromMask(kI32, hn::Lt(index, last)));
    const auto mask = hn::RebindMask(kF32, hn::MaskFromVec(visible));
    hn::StoreU(hn::IfThenElse(mask, hn::LoadU(kF32, score), masked), kF32, score);
  }
}

void SoftmaxStep(const SoftmaxArgs& p) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  const Vec minus_infinity = hn::Set(kF32, -std::numeric_limits<float>::infinity());
  for (std::int64_t query = 0; query < p.n_queries; query += lanes) {
    if (p.first_key != nullptr) mask_column(p, query);
    const Vec before = hn::LoadU(kF32, p.maximum + query);
    Vec maximum = before;
    for (std::int64_t key = 0; key < p.n_keys; ++key) {
      maximum = hn::Max(maximum, hn::LoadU(kF32, p.scores + key * p.n_queries + query));
    }
    // A query that has seen nothing yet: any finite reference makes its weights exp(-inf) = 0.
    const Vec reference = hn::IfThenElse(hn::Eq(maximum, minus_infinity), hn::Zero(kF32), maximum);
    const Vec rescale = exp(hn::Sub(before, reference));
    Vec sum = hn::Mul(hn::LoadU(kF32, p.sum + query), rescale);
    for (std::int64_t key = 0; key < p.n_keys; ++key) {
      float* score = p.scores + key * p.n_queries + query;
      const Vec weight = exp(hn::Sub(hn::LoadU(kF32, score), reference));
      sum = hn::Add(sum, weight);
      hn::StoreU(weight, kF32, score);
    }
    hn::StoreU(maximum, kF32, p.maximum + query);
    hn::StoreU(sum, kF32, p.sum + query);
    if (hn::AllTrue(kF32, hn::Eq(before, maximum))) continue;
    for (std::int64_t i = 0; i < p.n_output; ++i) {
      float* output = p.output + i * p.n_queries + query;
      hn::StoreU(hn::Mul(hn::LoadU(kF32, output), rescale), kF32, output);
    }
  }
}

void WeightsFromScores(const WeightsArgs& p) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  for (std::int64_t query = 0; query < p.n_queries; query += lanes) {
    if (p.first_key != nullptr) mask_column(p, query);
    const Vec reference = hn::LoadU(kF32, p.log_sum_exp + query);
    for (std::int64_t key = 0; key < p.n_keys; ++key) {
      float* score = p.scores + key * p.n_queries + query;
      hn::StoreU(exp(hn::Sub(hn::LoadU(kF32, score), reference)), kF32, score);
    }
  }
}

// ---- loss ----

void FoldLogits(const float* logits, std::int64_t n, LogSumExp& state) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  const std::int64_t whole = n / lanes * lanes;
  float maximum = state.maximum;
  Vec maxima = hn::Set(kF32, maximum);
  for (std::int64_t i = 0; i < whole; i += lanes) {
    maxima = hn::Max(maxima, hn::LoadU(kF32, logits + i));
  }
  maximum = hn::GetLane(hn::MaxOfLanes(kF32, maxima));
  for (std::int64_t i = whole; i < n; ++i) maximum = std::fmax(maximum, logits[i]);
  if (maximum == -std::numeric_limits<float>::infinity()) return;

  const Vec reference = hn::Set(kF32, maximum);
  // Short runs in f32 lanes, their totals in double: a long f32 sum drifts.
  constexpr std::int64_t kRun = 1024;
  double sum = state.sum * std::exp(static_cast<double>(state.maximum) - maximum);
  for (std::int64_t begin = 0; begin < whole; begin += kRun) {
    const std::int64_t end = begin + kRun < whole ? begin + kRun : whole;
    Vec partial = hn::Zero(kF32);
    for (std::int64_t i = begin; i < end; i += lanes) {
      partial = hn::Add(partial, exp(hn::Sub(hn::LoadU(kF32, logits + i), reference)));
    }
    sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(kF32, partial)));
  }
  for (std::int64_t i = whole; i < n; ++i) {
    sum += std::exp(static_cast<double>(logits[i]) - maximum);
  }
  state.maximum = maximum;
  state.sum = sum;
}

// ---- elementwise ----

float SumOfSquares(const float* x, std::int64_t n) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  Vec sum = hn::Zero(kF32);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vec value = hn::LoadU(kF32, x + i);
    sum = hn::MulAdd(value, value, sum);
  }
  float total = hn::GetLane(hn::SumOfLanes(kF32, sum));
  for (; i < n; ++i) total += x[i] * x[i];
  return total;
}

void ScaleBy(const float* x, const float* weight, float factor, std::int64_t n, float* out) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  const Vec factors = hn::Set(kF32, factor);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vec scaled = hn::Mul(hn::LoadU(kF32, x + i), factors);
    hn::StoreU(hn::Mul(scaled, hn::LoadU(kF32, weight + i)), kF32, out + i);
  }
  for (; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

// Products are rounded before they are added, as in published code: norms of keys that differ by
// their positions alone then tie where they tie there.
void RotateHalves(float* row, const float* cosine, const float* sine, std::int64_t half) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  float* upper = row + half;
  std::int64_t i = 0;
  for (; i + lanes <= half; i += lanes) {
    const Vec c = hn::LoadU(kF32, cosine + i);
    const Vec s = hn::LoadU(kF32, sine + i);
    const Vec low = hn::LoadU(kF32, row + i);
    const Vec high = hn::LoadU(kF32, upper + i);
    hn::StoreU(hn::Sub(hn::Mul(low, c), hn::Mul(high, s)), kF32, row + i);
    hn::StoreU(hn::Add(hn::Mul(high, c), hn::Mul(low, s)), kF32, upper + i);
  }
  for (; i < half; ++i) {
    const float low = row[i];
    row[i] = low * cosine[i] - upper[i] * sine[i];
    upper[i] = upper[i] * cosine[i] + low * sine[i];
  }
}

// ---- bf16 ----

void Bf16ToFloats(const std::uint16_t* x, std::int64_t n, float* out) {
  const hn::Rebind<std::uint16_t, F32> u16;
  const hn::RebindToUnsigned<F32> u32;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(u32, hn::LoadU(u16, x + i)));
    hn::StoreU(hn::BitCast(kF32, bits), kF32, out + i);
  }
  for (; i < n; ++i) out[i] = bf16_to_float(x[i]);
}

// Nearest even on the bits; a NaN stays a (quiet) NaN, as in float_to_bf16.
void FloatsToBf16(const float* x, std::int64_t n, std::uint16_t* out) {
  const hn::Rebind<std::uint16_t, F32> u16;
  const hn::RebindToUnsigned<F32> u32;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  const auto bias = hn::Set(u32, 0x7FFFu);
  const auto one = hn::Set(u32, 1u);
  const auto quiet = hn::Set(u32, 0x0040u);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vec value = hn::LoadU(kF32, x + i);
    const auto bits = hn::BitCast(u32, value);
    const auto high = hn::ShiftRight<16>(bits);
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(bias, hn::And(high, one))));
    const auto nan = hn::RebindMask(u32, hn::IsNaN(value));
    const auto result = hn::IfThenElse(nan, hn::Or(high, quiet), rounded);
    hn::StoreU(hn::TruncateTo(u16, result), u16, out + i);
  }
  for (; i < n; ++i) out[i] = float_to_bf16(x[i]);
}

const char* InstructionSet() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace kvbench::tile::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvbench::tile {

HWY_EXPORT(SoftmaxStep);
HWY_EXPORT(WeightsFromScores);
HWY_EXPORT(FoldLogits);
HWY_EXPORT(SumOfSquares);
HWY_EXPORT(ScaleBy);
HWY_EXPORT(RotateHalves);
HWY_EXPORT(Bf16ToFloats);
HWY_EXPORT(FloatsToBf16);
HWY_EXPORT(InstructionSet);

void softmax_step(const SoftmaxArgs& args) {
  HWY_DYNAMIC_DISPATCH(SoftmaxStep)(args);
}

void weights_from_scores(const WeightsArgs& args) {
  HWY_DYNAMIC_DISPATCH(WeightsFromScores)(args);
}

void fold_logits(const float* logits, std::int64_t n, LogSumExp& state) {
  HWY_DYNAMIC_DISPATCH(FoldLogits)(logits, n, state);
}

float sum_of_squares(const float* x, std::int64_t n) {
  return HWY_DYNAMIC_DISPATCH(SumOfSquares)(x, n);
}

void scale_by(const float* x, const float* weight, float factor, std::int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(ScaleBy)(x, weight, factor, n, out);
}

void rotate_halves(float* row, const float* cosine, const float* sine, std::int64_t half) {
  HWY_DYNAMIC_DISPATCH(RotateHalves)(row, cosine, sine, half);
}

void bf16_to_floats(const std::uint16_t* x, std::int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(Bf16ToFloats)(x, n, out);
}

void floats_to_bf16(const float* x, std::int64_t n, std::uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(FloatsToBf16)(x, n, out);
}

const char* instruction_set() {
  return HWY_DYNAMIC_DISPATCH(InstructionSet)();
}

}  // namespace kvbench::tile
#endif  // HWY_ONCE
