// From Backend's argument types to those of the kernels.
#pragma once

#include "backend/backend.hpp"
#include "core/error.hpp"
#include "kernels/quantise.hpp"
#include "kernels/rope.hpp"

namespace kvbench {

inline RopeTable rope_table(const RopeRows& rows, const RopeShape& shape) {
  return {rows.cosine, rows.sine, static_cast<int>(shape.rotary_dim), shape.interleaved};
}

inline QuantLayout quant_layout(const QuantFormat& format) {
  return {static_cast<int>(format.bits), static_cast<int>(format.group), format.along_rows};
}

// Kernels know two element types; anything else is a broken contract.
inline bool is_bf16(DType dtype) {
  KVB_CHECK(dtype == DType::f32 || dtype == DType::bf16, "dtype {}", dtype_name(dtype));
  return dtype == DType::bf16;
}

}  // namespace kvbench
