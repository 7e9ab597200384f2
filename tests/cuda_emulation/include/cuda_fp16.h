// binary16 as the kernels use it: storage, widened on reading.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"

class __half {
 public:
  __half() = default;
  explicit operator float() const { return kvbench::f16_to_float(bits_); }

 private:
  std::uint16_t bits_;
};

inline float __half2float(__half value) {
  return static_cast<float>(value);
}
