// Names and sizes of the dtypes of the safetensors format.
#include "core/dtype.hpp"

#include <array>

#include "core/error.hpp"

namespace kvbench {
namespace {

struct DTypeRow {
  DType dtype;
  std::size_t byte_count;
  std::string_view name;
};

constexpr std::array<DTypeRow, 15> kDTypes = {{{DType::f64, 8, "F64"},
                                               {DType::f32, 4, "F32"},
                                               {DType::f16, 2, "F16"},
                                               {DType::bf16, 2, "BF16"},
                                               {DType::f8_e4m3, 1, "F8_E4M3"},
                                               {DType::f8_e5m2, 1, "F8_E5M2"},
                                               {DType::i64, 8, "I64"},
                                               {DType::i32, 4, "I32"},
                                               {DType::i16, 2, "I16"},
                                               {DType::i8, 1, "I8"},
                                               {DType::u64, 8, "U64"},
                                               {DType::u32, 4, "U32"},
                                               {DType::u16, 2, "U16"},
                                               {DType::u8, 1, "U8"},
                                               {DType::boolean, 1, "BOOL"}}};

const DTypeRow& row_of(DType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype) return row;
  }
  throw InternalError(fmt::format("no dtype has the number {}", static_cast<int>(dtype)));
}

}  // namespace

std::size_t dtype_size(DType dtype) {
  return row_of(dtype).byte_count;
}

std::string_view dtype_name(DType dtype) {
  return row_of(dtype).name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace kvbench
