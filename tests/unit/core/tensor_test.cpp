// Sizes of tensor views and widening of their elements.
#include "core/tensor.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/safetensors_builder.hpp"

namespace kvbench {
namespace {

using test::bytes_of;
using test::contains;
using test::error_text;

const std::byte* at(const std::string& bytes, std::size_t offset) {
  return reinterpret_cast<const std::byte*>(bytes.data()) + offset;
}

// The values' bytes after one byte that makes every element's address odd.
template <class T>
std::string odd_bytes(const std::vector<T>& values) {
  std::string bytes(1, 'x');
  return bytes.append(bytes_of(values));
}

TEST_CASE("sizes of scalars, empty tensors and tensors beyond 32 bits") {
  CHECK(TensorView{nullptr, DType::f32, {}}.element_count() == 1);
  CHECK(TensorView{nullptr, DType::f32, {3, 0, 2}}.element_count() == 0);
  CHECK(TensorView{nullptr, DType::bf16, {32, 8, 131072, 128}}.element_count() == 4294967296);
  CHECK(TensorView{nullptr, DType::bf16, {32, 8, 131072, 128}}.byte_count() == 8589934592);
  CHECK(to_string(Shape{32, 576}) == "[32, 576]");
  CHECK(to_string(Shape{}) == "[]");
}

TEST_CASE("elements at odd addresses widen, any part of a tensor") {
  const std::string f32 = odd_bytes<float>({1.5f, -2.25f, 8.0f});
  const std::string f16 = odd_bytes<std::uint16_t>({0x3E00, 0xC080, 0x4800});
  const std::string bf16 = odd_bytes<std::uint16_t>({0x3FC0, 0xC010, 0x4100});
  const std::vector<std::pair<DType, const std::string*>> rows = {
      {DType::f32, &f32}, {DType::f16, &f16}, {DType::bf16, &bf16}};
  for (const auto& [dtype, bytes] : rows) {
    CAPTURE(dtype_name(dtype));
    const TensorView tensor{at(*bytes, 1), dtype, {3}};
    std::vector<float> all(3);
    to_floats(tensor, 0, 3, all.data());
    CHECK(all == std::vector<float>{1.5f, -2.25f, 8.0f});
    std::vector<float> part(2);
    to_floats(tensor, 1, 2, part.data());
    CHECK(part == std::vector<float>{-2.25f, 8.0f});
    to_floats(tensor, 3, 0, nullptr);
  }
}

TEST_CASE("a range outside the tensor is refused") {
  const std::string bytes = bytes_of<float>({1.0f, 2.0f});
  const TensorView tensor{at(bytes, 0), DType::f32, {2}};
  std::vector<float> out(4);
  const std::vector<std::pair<std::int64_t, std::int64_t>> ranges = {
      {0, 3}, {2, 1}, {-1, 1}, {0, -1}, {INT64_MAX, 1}, {1, INT64_MAX}};
  for (const auto& [first, count] : ranges) {
    CAPTURE(first);
    CAPTURE(count);
    CHECK_THROWS_AS(to_floats(tensor, first, count, out.data()), InternalError);
  }
}

TEST_CASE("dtypes that are no floats of 16 or 32 bits are refused by name") {
  const std::string bytes("\x38\xb8\x40\x7e", 4);
  float out = 0.0f;
  const TensorView tensor{at(bytes, 0), DType::f8_e4m3, {4}};
  CHECK(error_text<DataError>([&] { require_float_dtype(tensor, "lm_head.weight"); }) ==
        "dtype F8_E4M3 of lm_head.weight is not supported; expected F32, F16 or BF16");
  CHECK(contains(error_text<DataError>([&] { to_floats(tensor, 0, 1, &out); }), "F8_E4M3"));
  for (const DType dtype : {DType::f64, DType::u16, DType::i16, DType::u32, DType::boolean}) {
    CAPTURE(dtype_name(dtype));
    CHECK_THROWS_AS(to_floats({at(bytes, 0), dtype, {0}}, 0, 0, &out), DataError);
  }
}

}  // namespace
}  // namespace kvbench
