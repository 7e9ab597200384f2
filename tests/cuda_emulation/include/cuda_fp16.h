// binary16 as the kernels use it: storage, widened on reading, rounded to nearest even on writing.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"

class __half {
 public:
  __half() = default;
  explicit __half(float value) : bits_(kvbench::float_to_f16(value)) {}
  explicit operator float() const { return kvbench::f16_to_float(bits_); }

 private:
  std::uint16_t bits_;
};

inline __half __float2half_rn(float value) {
  return __half(value);
}
inline float __half2float(__half value) {
  return static_cast<float>(value);
}
