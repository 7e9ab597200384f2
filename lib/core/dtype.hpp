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
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean
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

// IEEE binary16, subnormals, infinities and NaN included. No branches, so that loops vectorise.
inline float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7FFFu;
  // The exponent bias grows from 15 to 127; infinity and NaN need the step twice to reach 255.
  const std::uint32_t rebias = magnitude >= 0x7C00u ? 224u << 23 : 112u << 23;
  const std::uint32_t normal = (magnitude << 13) + rebias;
  // A subnormal is its integer value times 2^-24, exact in float.
  const float tiny = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  const std::uint32_t wide = magnitude < 0x0400u ? std::bit_cast<std::uint32_t>(tiny) : normal;
  return std::bit_cast<float>(sign | wide);
}

// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
// Overflow gives infinity (callers that care count it).
inline std::uint16_t float_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  std::uint32_t half;
  if (magnitude > 0x7F800000u) {
    half = 0x7E00u | ((magnitude >> 13) & 0x03FFu);
  } else if (magnitude >= 0x477FF000u) {  // 65520 and above round to 65536, which is infinity
    half = 0x7C00u;
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 makes the float adder round to multiples of 2^-24 for us.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f);
  } else {
    half = (magnitude - (112u << 23) + 0x0FFFu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

}  // namespace kvbench
