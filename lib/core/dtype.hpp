// Element types of tensors: names, sizes, and the conversions between 16-bit floats and float.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kvbench {

// Every dtype that a safetensors header may name. kvbench computes with the floats only; the
// others are known so that a file which holds them can be checked and refused by name.
enum class DType : std::uint8_t {
  f64, f32, f16, bf16, f8_e4m3, f8_e5m2,
  i64, i32, i16, i8, u64, u32, u16, u8, boolean
};

// Bytes of one element.
std::size_t dtype_size(DType dtype);
// The safetensors spelling: "F32", "BF16", ...
std::string_view dtype_name(DType dtype);
// The dtype with that safetensors spelling, or nothing.
std::optional<DType> dtype_from_name(std::string_view name);

inline float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
inline std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// IEEE binary16, subnormals, infinities and NaN included.
float f16_to_float(std::uint16_t bits);
// Rounds to nearest, ties to even; overflow gives infinity (callers that care count it).
std::uint16_t float_to_f16(float value);

}  // namespace kvbench
