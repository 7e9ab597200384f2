// Bytes of safetensors files for tests, well-formed and malformed.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.hpp"

namespace kvbench::test {

// The bytes of values in memory order (little-endian on every machine we build for).
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A file from its parts, whatever they are: length prefix, header text, data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  const std::vector<std::uint64_t> length = {header.size()};
  return bytes_of(length) + std::string(header) + std::string(data);
}

// A well-formed file: tensors lie in the order in which they are added.
class SafetensorsBuilder {
 public:
  // `data` must have the bytes that dtype and shape need.
  SafetensorsBuilder& add(std::string_view name, DType dtype, const Shape& shape,
                          std::string_view data) {
    const std::size_t begin = data_.size();
    data_ += data;
    if (!entries_.empty()) entries_ += ",";
    entries_ += fmt::format("\"{}\":{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                            name, dtype_name(dtype), to_string(shape), begin, data_.size());
    return *this;
  }
  SafetensorsBuilder& add_f32(std::string_view name, const Shape& shape,
                              const std::vector<float>& values) {
    return add(name, DType::f32, shape, bytes_of(values));
  }

  std::string bytes() const { return safetensors_bytes("{" + entries_ + "}", data_); }

 private:
  std::string entries_;  // of the JSON header, comma-separated
  std::string data_;
};

}  // namespace kvbench::test
