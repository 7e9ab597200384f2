// Highway implementations of the decoding loops. The file is compiled once per instruction set
// (foreach_target re-includes it); the last section picks one at run time.
#include "backend/cpu/decode_kernels.hpp"

#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/decode_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace kvbench::tile::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that every head is whole vectors.
using F32 = hn::CappedTag<float, kDecodeStep>;
using Vec = hn::Vec<F32>;
constexpr F32 kF32;

HWY_INLINE Vec load(const float* x) {
  return hn::LoadU(kF32, x);
}

HWY_INLINE Vec load(const std::uint16_t* x) {
  const hn::Rebind<std::uint16_t, F32> u16;
  const hn::RebindToUnsigned<F32> u32;
  return hn::BitCast(kF32, hn::ShiftLeft<16>(hn::PromoteTo(u32, hn::LoadU(u16, x))));
}

// Highway's exp makes 0 of a NaN; here a NaN must reach the result, where it is found and named.
HWY_INLINE Vec exp(Vec x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(kF32, x));
}

// ---- scores ----

template <int kKeys, int kHeads, class Element>
HWY_INLINE void score_tile(const Element* keys, std::int64_t d, const float* q, float* scores,
                           std::int64_t stride) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  Vec sum[kKeys][kHeads];
  for (auto& row : sum) {
    for (Vec& value : row) value = hn::Zero(kF32);
  }
  for (std::int64_t i = 0; i < d; i += lanes) {
    Vec key[kKeys];
    for (int k = 0; k < kKeys; ++k) key[k] = load(keys + k * d + i);
    for (int g = 0; g < kHeads; ++g) {
      const Vec query = hn::LoadU(kF32, q + g * d + i);
      for (int k = 0; k < kKeys; ++k) sum[k][g] = hn::MulAdd(key[k], query, sum[k][g]);
    }
  }
  for (int g = 0; g < kHeads; ++g) {
    for (int k = 0; k < kKeys; ++k) {
      scores[g * stride + k] = hn::GetLane(hn::SumOfLanes(kF32, sum[k][g]));
    }
  }
}

template <int kHeads, class Element>
void score_rows(const Element* keys, std::int64_t n, std::int64_t d, const float* q, float* scores,
                std::int64_t stride) {
  constexpr int kKeys = 4;
  std::int64_t key = 0;
  for (; key + kKeys <= n; key += kKeys) {
    score_tile<kKeys, kHeads>(keys + key * d, d, q, scores + key, stride);
  }
  for (; key < n; ++key) score_tile<1, kHeads>(keys + key * d, d, q, scores + key, stride);
}

// ---- values ----

template <int kHeads, int kVectors, class Element>
HWY_INLINE void value_columns(const Element* values, std::int64_t n, std::int64_t d,
                              const float* weights, std::int64_t stride, float* output) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  Vec sum[kHeads][kVectors];
  for (int g = 0; g < kHeads; ++g) {
    for (int v = 0; v < kVectors; ++v) {
      sum[g][v] = hn::LoadU(kF32, output + g * d + v * lanes);
    }
  }
  for (std::int64_t key = 0; key < n; ++key) {
    Vec value[kVectors];
    for (int v = 0; v < kVectors; ++v) value[v] = load(values + key * d + v * lanes);
    for (int g = 0; g < kHeads; ++g) {
      const Vec weight = hn::Set(kF32, weights[g * stride + key]);
      for (int v = 0; v < kVectors; ++v) sum[g][v] = hn::MulAdd(weight, value[v], sum[g][v]);
    }
  }
  for (int g = 0; g < kHeads; ++g) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[g][v], kF32, output + g * d + v * lanes);
  }
}

template <int kHeads, class Element>
void value_rows(const Element* values, std::int64_t n, std::int64_t d, const float* weights,
                std::int64_t stride, float* output) {
  constexpr int kVectors = 4;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  std::int64_t i = 0;
  for (; i + kVectors * lanes <= d; i += kVectors * lanes) {
    value_columns<kHeads, kVectors>(values + i, n, d, weights, stride, output + i);
  }
  for (; i < d; i += lanes) {
    value_columns<kHeads, 1>(values + i, n, d, weights, stride, output + i);
  }
}

// ---- groups of up to four heads ----

// work(first head, number of heads as a constant) for the heads of a group, four at a time.
template <class Work>
HWY_INLINE void for_heads(std::int64_t group, const Work& work) {
  std::int64_t g = 0;
  for (; g + 4 <= group; g += 4) work(g, std::integral_constant<int, 4>());
  switch (group - g) {
    case 1:
      return work(g, std::integral_constant<int, 1>());
    case 2:
      return work(g, std::integral_constant<int, 2>());
    case 3:
      return work(g, std::integral_constant<int, 3>());
    default:
      return;
  }
}

template <class Element>
void scores_of(const Element* keys, const StoredRows& rows, const float* q, std::int64_t group,
               float* scores, std::int64_t stride) {
  const std::int64_t d = rows.head_dim;
  for_heads(group, [&](std::int64_t g, auto heads) {
    score_rows<heads()>(keys, rows.n_rows, d, q + g * d, scores + g * stride, stride);
  });
}

template <class Element>
void values_of(const Element* values, const StoredRows& rows, const float* weights,
               std::int64_t group, std::int64_t stride, float* output) {
  const std::int64_t d = rows.head_dim;
  for_heads(group, [&](std::int64_t g, auto heads) {
    value_rows<heads()>(values, rows.n_rows, d, weights + g * stride, stride, output + g * d);
  });
}

void DecodeScores(const StoredRows& keys, const float* q, std::int64_t group, float* scores,
                  std::int64_t stride) {
  if (keys.dtype == DType::f32) {
    scores_of(static_cast<const float*>(keys.rows), keys, q, group, scores, stride);
  } else {
    scores_of(static_cast<const std::uint16_t*>(keys.rows), keys, q, group, scores, stride);
  }
}

void DecodeValues(const StoredRows& values, const float* weights, std::int64_t group,
                  std::int64_t stride, float* output) {
  if (values.dtype == DType::f32) {
    values_of(static_cast<const float*>(values.rows), values, weights, group, stride, output);
  } else {
    values_of(static_cast<const std::uint16_t*>(values.rows), values, weights, group, stride,
              output);
  }
}

// ---- softmax ----

// exp(scores - reference) in place, and their sum.
HWY_INLINE float exponentials(float* scores, std::int64_t n, float reference) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(kF32));
  const Vec offset = hn::Set(kF32, reference);
  Vec sum = hn::Zero(kF32);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vec weight = exp(hn::Sub(hn::LoadU(kF32, scores + i), offset));
    sum = hn::Add(sum, weight);
    hn::StoreU(weight, kF32, scores + i);
  }
  float total = hn::GetLane(hn::SumOfLanes(kF32, sum));
  for (; i < n; ++i) {
    scores[i] = hn::GetLane(exp(hn::Set(kF32, scores[i] - reference)));
    total += scores[i];
  }
  return total;
}

void DecodeSoftmax(float* scores, std::int64_t n, float& maximum, float& sum, float* output,
                   std::int64_t n_output) {
  float highest = maximum;
  for (std::int64_t i = 0; i < n; ++i) {
    if (scores[i] > highest) highest = scores[i];
  }
  // A row that holds nothing but -inf: any finite reference makes its weights exp(-inf) = 0.
  const bool empty = highest == -std::numeric_limits<float>::infinity();
  const float reference = empty ? 0.0f : highest;
  const float rescale = hn::GetLane(exp(hn::Set(kF32, maximum - reference)));
  sum = sum * rescale + exponentials(scores, n, reference);
  if (highest == maximum) return;
  for (std::int64_t i = 0; i < n_output; ++i) output[i] *= rescale;
  maximum = highest;
}

void DecodeWeights(float* scores, std::int64_t n, float log_sum_exp) {
  exponentials(scores, n, log_sum_exp);
}

}  // namespace kvbench::tile::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvbench::tile {

HWY_EXPORT(DecodeScores);
HWY_EXPORT(DecodeValues);
HWY_EXPORT(DecodeSoftmax);
HWY_EXPORT(DecodeWeights);

void decode_scores(const StoredRows& keys, const float* q, std::int64_t group, float* scores,
                   std::int64_t stride) {
  HWY_DYNAMIC_DISPATCH(DecodeScores)(keys, q, group, scores, stride);
}

void decode_values(const StoredRows& values, const float* weights, std::int64_t group,
                   std::int64_t stride, float* output) {
  HWY_DYNAMIC_DISPATCH(DecodeValues)(values, weights, group, stride, output);
}

void decode_softmax(float* scores, std::int64_t n, float& maximum, float& sum, float* output,
                    std::int64_t n_output) {
  HWY_DYNAMIC_DISPATCH(DecodeSoftmax)(scores, n, maximum, sum, output, n_output);
}

void decode_weights(float* scores, std::int64_t n, float log_sum_exp) {
  HWY_DYNAMIC_DISPATCH(DecodeWeights)(scores, n, log_sum_exp);
}

}  // namespace kvbench::tile
#endif  // HWY_ONCE
