// Dtype names, and 16-bit float conversions checked over their whole range.
#include "core/dtype.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace kvbench {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Equal as numbers, with the sign of zero; NaN equals NaN.
bool same(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

// The value of a finite binary16 from the definition of the format.
float f16_by_definition(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

TEST_CASE("dtype names go both ways and unknown names give nothing") {
  const std::vector<std::pair<std::string, std::size_t>> rows = {
      {"F64", 8},     {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1},
      {"F8_E5M2", 1}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},
      {"U64", 8},     {"U32", 4}, {"U16", 2}, {"U8", 1},   {"BOOL", 1}};
  for (const auto& [name, byte_count] : rows) {
    CAPTURE(name);
    const auto dtype = dtype_from_name(name);
    REQUIRE(dtype.has_value());
    CHECK(dtype_name(*dtype) == name);
    CHECK(dtype_size(*dtype) == byte_count);
  }
  for (const char* name : {"", "f32", "F128", "XYZ", "F3", "F320", "BF16 "}) {
    CAPTURE(name);
    CHECK_FALSE(dtype_from_name(name).has_value());
  }
}

TEST_CASE("bf16 to float at the edges") {
  const std::vector<std::pair<int, float>> rows = {
      {0x0000, 0.0f},           {0x8000, -0.0f},           {0x3F80, 1.0f},
      {0xC000, -2.0f},          {0x0001, 9.1835496e-41f},  {0x8001, -9.1835496e-41f},
      {0x007F, 1.1663108e-38f}, {0x0080, 1.17549435e-38f}, {0x7F7F, 3.3895314e38f},
      {0x7F80, kInf},           {0xFF80, -kInf},           {0x7FC0, NAN},
      {0x4780, 65536.0f},       {0x3380, 0x1p-24f}};
  for (const auto& [bits, value] : rows) {
    CAPTURE(bits);
    CHECK(same(bf16_to_float(static_cast<std::uint16_t>(bits)), value));
  }
}

TEST_CASE("f16 to float at the edges") {
  const std::vector<std::pair<int, float>> rows = {
      {0x0000, 0.0f},          {0x8000, -0.0f},    {0x0001, 5.9604645e-8f}, {0x03FF, 6.0975552e-5f},
      {0x0400, 6.1035156e-5f}, {0x7BFF, 65504.0f}, {0xFBFF, -65504.0f},     {0x7C00, kInf},
      {0xFC00, -kInf},         {0x7E00, NAN},      {0x7C01, NAN},           {0x3C00, 1.0f},
      {0x3555, 0.33325195f}};
  for (const auto& [bits, value] : rows) {
    CAPTURE(bits);
    CHECK(same(f16_to_float(static_cast<std::uint16_t>(bits)), value));
  }
}

TEST_CASE("every f16 widens to its defined value and narrows back to its bits") {
  int wrong = 0;
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = f16_to_float(bits);
    if ((bits & 0x7C00) != 0x7C00) {
      wrong += !same(value, f16_by_definition(bits)) || float_to_f16(value) != bits;
    } else if ((bits & 0x03FF) == 0) {
      wrong += !std::isinf(value) || float_to_f16(value) != bits;
    } else {
      wrong += !std::isnan(value) || !std::isnan(f16_to_float(float_to_f16(value)));
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("float to f16 rounds to nearest, ties to even, between all neighbours") {
  int wrong = 0;
  for (int i = 0; i < 0x7C00; ++i) {
    const auto low = static_cast<std::uint16_t>(i);
    const auto high = static_cast<std::uint16_t>(i + 1);
    // The largest finite value rounds as if the next one were 65536.
    const float above = high == 0x7C00 ? 65536.0f : f16_by_definition(high);
    const float middle = (f16_by_definition(low) + above) / 2;
    const std::uint16_t even = (low & 1) == 0 ? low : high;
    wrong += float_to_f16(middle) != even;
    wrong += float_to_f16(std::nextafter(middle, 0.0f)) != low;
    wrong += float_to_f16(std::nextafter(middle, kInf)) != high;
    wrong += float_to_f16(-middle) != (even | 0x8000);
  }
  CHECK(wrong == 0);
  CHECK(float_to_f16(65519.996f) == 0x7BFF);
  CHECK(float_to_f16(65520.0f) == 0x7C00);
  CHECK(float_to_f16(-3e38f) == 0xFC00);
  CHECK(float_to_f16(std::numeric_limits<float>::denorm_min()) == 0);
  CHECK(float_to_f16(bf16_to_float(0x4780)) == 0x7C00);
  CHECK(float_to_f16(bf16_to_float(0x3380)) == 0x0001);
}

TEST_CASE("float to bf16 rounds to nearest, ties to even, and keeps NaN") {
  int wrong = 0;
  for (std::uint32_t low = 0; low < 0x7F80; ++low) {
    const std::uint32_t even = (low & 1) == 0 ? low : low + 1;
    const std::uint32_t middle = (low << 16) | 0x8000u;
    wrong += float_to_bf16(std::bit_cast<float>(low << 16)) != low;
    wrong += float_to_bf16(std::bit_cast<float>(middle)) != even;
    wrong += float_to_bf16(std::bit_cast<float>(middle - 1)) != low;
    wrong += float_to_bf16(std::bit_cast<float>(middle + 1)) != low + 1;
  }
  CHECK(wrong == 0);
  CHECK(float_to_bf16(3.14f) == 0x4049);
  CHECK(float_to_bf16(-kInf) == 0xFF80);
  for (const std::uint32_t bits : {0x7F800001u, 0xFF800001u, 0x7FC00000u, 0x7FFFFFFFu}) {
    CAPTURE(bits);
    CHECK(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(bits)))));
    CHECK(std::isnan(f16_to_float(float_to_f16(std::bit_cast<float>(bits)))));
  }
}

}  // namespace
}  // namespace kvbench
