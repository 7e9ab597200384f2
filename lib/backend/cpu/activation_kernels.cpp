// Activations and soft caps. This file is compiled once per instruction set (Highway).
#include "backend/cpu/activation_kernels.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/activation_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace kvbench::tile::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using Vec = hn::Vec<F32>;
constexpr F32 kF32;

// 1 / (1 + exp(-x)) by exp of minus |x|, as this exp has no meaning where its result overflows.
HWY_INLINE Vec sigmoid(Vec x) {
  const Vec one = hn::Set(kF32, 1.0f);
  const Vec small = hn::Exp(kF32, hn::Neg(hn::Abs(x)));
  const Vec numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(kF32)), small, one);
  return hn::Div(numerator, hn::Add(one, small));
}

HWY_INLINE Vec silu(Vec x) {
  return hn::Mul(x, sigmoid(x));
}

// x * (1 + tanh(z)) / 2 with z = sqrt(2/pi) (x + 0.044715 x^3) is x * sigmoid(2 z).
HWY_INLINE Vec gelu_tanh(Vec x) {
  const Vec cubic = hn::Mul(hn::Mul(x, x), hn::Mul(x, hn::Set(kF32, 0.044715f)));
  return hn::Mul(x, sigmoid(hn::Mul(hn::Set(kF32, 1.5957691216057308f), hn::Add(x, cubic))));
}

// x * (1 + erf(x / sqrt(2))) / 2. With z = |x| / sqrt(2), erfc(z) is a polynomial in 1 / (1 + p z)
// times exp(-z^2) (Abramowitz and Stegun, 7.1.26; error below 1.5e-7): x erfc(z) / 2 is what
// gelu(x) lacks to max(x, 0).
HWY_INLINE Vec gelu(Vec x) {
  const Vec one = hn::Set(kF32, 1.0f);
  const Vec z = hn::Mul(hn::Abs(x), hn::Set(kF32, 0.70710678f));
  const Vec t = hn::Div(one, hn::MulAdd(hn::Set(kF32, 0.3275911f), z, one));
  Vec sum = hn::Set(kF32, 1.061405429f);
  sum = hn::MulAdd(sum, t, hn::Set(kF32, -1.453152027f));
  sum = hn::MulAdd(sum, t, hn::Set(kF32, 1.421413741f));
  sum = hn::MulAdd(sum, t, hn::Set(kF32, -0.284496736f));
  sum = hn::MulAdd(sum, t, hn::Set(kF32, 0.254829592f));
  const Vec erfc = hn::Mul(hn::Mul(sum, t), hn::Exp(kF32, hn::Neg(hn::Mul(z, z))));
  const Vec tail = hn::Mul(hn::Mul(hn::Abs(x), hn::Set(kF32, 0.5f)), erfc);
  return hn::Sub(hn::Max(x, hn::Zero(kF32)), tail);
}

template <class Function>
HWY_INLINE void gate_with(Function function, const float* gate, const float* up, std::int64_t n,
                          float* out) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vec activated = function(hn::LoadU(kF32, gate + i));
    hn::StoreU(hn::Mul(activated, hn::LoadU(kF32, up + i)), kF32, out + i);
  }
  for (; i < n; ++i) {
    out[i] = hn::GetLane(function(hn::Set(kF32, gate[i]))) * up[i];
  }
}

template <class Function>
HWY_INLINE void map(Function function, const float* x, std::int64_t n, float* out) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(function(hn::LoadU(kF32, x + i)), kF32, out + i);
  for (; i < n; ++i) out[i] = hn::GetLane(function(hn::Set(kF32, x[i])));
}

void Gate(Activation activation, const float* gate, const float* up, std::int64_t n, float* out) {
  switch (activation) {
    case Activation::silu:
      return gate_with([](Vec x) HWY_ATTR { return silu(x); }, gate, up, n, out);
    case Activation::gelu_tanh:
      return gate_with([](Vec x) HWY_ATTR { return gelu_tanh(x); }, gate, up, n, out);
    case Activation::gelu:
      return gate_with([](Vec x) HWY_ATTR { return gelu(x); }, gate, up, n, out);
  }
}

void Activate(Activation activation, const float* x, std::int64_t n, float* out) {
  switch (activation) {
    case Activation::silu:
      return map([](Vec v) HWY_ATTR { return silu(v); }, x, n, out);
    case Activation::gelu_tanh:
      return map([](Vec v) HWY_ATTR { return gelu_tanh(v); }, x, n, out);
    case Activation::gelu:
      return map([](Vec v) HWY_ATTR { return gelu(v); }, x, n, out);
  }
}

void SoftCap(float* x, std::int64_t n, float cap) {
  const auto capped = [cap](Vec v) HWY_ATTR {
    const Vec limit = hn::Set(kF32, cap);
    return hn::Mul(limit, hn::Tanh(kF32, hn::Div(v, limit)));
  };
  map(capped, x, n, x);
}

}  // namespace kvbench::tile::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvbench::tile {

HWY_EXPORT(Gate);
HWY_EXPORT(Activate);
HWY_EXPORT(SoftCap);

void gate(Activation activation, const float* gate, const float* up, std::int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(Gate)(activation, gate, up, n, out);
}

void activate(Activation activation, const float* x, std::int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(Activate)(activation, x, n, out);
}

void soft_cap(float* x, std::int64_t n, float cap) {
  HWY_DYNAMIC_DISPATCH(SoftCap)(x, n, cap);
}

}  // namespace kvbench::tile
#endif  // HWY_ONCE
