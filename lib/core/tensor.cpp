// Sizes of tensor views, and their elements as floats.
#include "core/tensor.hpp"

#include <cstring>

#include "core/error.hpp"
#include "core/printable.hpp"

namespace kvbench {
namespace {

// `widen` maps the 16 bits of an element to float. Loads go through memcpy: data may be unaligned.
template <class Widen>
void widen_16bit(const std::byte* from, std::int64_t count, float* out, Widen widen) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, from + 2 * i, sizeof bits);
    out[i] = widen(bits);
  }
}

bool is_supported_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

}  // namespace

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

std::int64_t TensorView::element_count() const {
  std::int64_t count = 1;  // a scalar has an empty shape
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::size_t TensorView::byte_count() const {
  return static_cast<std::size_t>(element_count()) * dtype_size(dtype);
}

void require_float_dtype(const TensorView& tensor, std::string_view name) {
  if (is_supported_float(tensor.dtype)) return;
  data_error("dtype {} of {} is not supported; expected F32, F16 or BF16", dtype_name(tensor.dtype),
             printable(name));
}

void to_floats(const TensorView& tensor, std::int64_t first, std::int64_t count, float* out) {
  const std::int64_t total = tensor.element_count();
  KVB_CHECK(first >= 0 && count >= 0 && first <= total && count <= total - first,
            "elements {} + {} of {}", first, count, total);
  require_float_dtype(tensor, "a tensor");
  if (count == 0) return;
  const std::byte* from = tensor.data + static_cast<std::size_t>(first) * dtype_size(tensor.dtype);
  if (tensor.dtype == DType::f32) {
    std::memcpy(out, from, static_cast<std::size_t>(count) * sizeof(float));
  } else if (tensor.dtype == DType::f16) {
    widen_16bit(from, count, out, f16_to_float);
  } else {
    widen_16bit(from, count, out, bf16_to_float);
  }
}

}  // namespace kvbench
