// bfloat16 as the kernels use it: storage, and conversions that round to nearest even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

class __nv_bfloat16 {
 public:
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    // As the hardware: every NaN becomes the same one.
    bits_ = std::isnan(value)
                ? std::uint16_t{0x7FFF}
                : static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16);
  }

 private:
  std::uint16_t bits_;
};

inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  return __nv_bfloat16(value);
}
inline float __bfloat162float(__nv_bfloat16 value) {
  return static_cast<float>(value);
}
