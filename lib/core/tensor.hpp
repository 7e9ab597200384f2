// Non-owning, read-only view of a dense row-major tensor in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"

namespace kvbench {

using Shape = std::vector<std::int64_t>;

// "[32, 576]"
std::string to_string(const Shape& shape);

// The bytes belong to someone else (a mapped file, a Buffer) and need not be aligned to the
// element size: read them with memcpy or `to_floats`.
struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  std::int64_t element_count() const;
  std::size_t byte_count() const;
};

// Throws "dtype F8_E4M3 of <name> is not supported" unless the dtype is F32, F16 or BF16.
void require_float_dtype(const TensorView& tensor, std::string_view name);

// Widens `count` elements from element `first` on to float. The dtype must be F32, F16 or BF16.
void to_floats(const TensorView& tensor, std::int64_t first, std::int64_t count, float* out);

}  // namespace kvbench
