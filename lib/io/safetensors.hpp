// Reader of one safetensors file: 8 bytes header length, JSON header, tensor data.
// Nothing in the header is trusted before it has been checked against the size of the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.hpp"
#include "io/mapped_file.hpp"

namespace kvbench {

struct NamedTensor {
  std::string name;
  TensorView view;
};

// A checked header. The views point into the bytes that were parsed.
struct SafetensorsHeader {
  std::vector<NamedTensor> tensors;  // ascending by place in the file
  std::map<std::string, std::string> metadata;
  std::vector<std::string> warnings;  // one line each, with `where`
};

// Parses and checks the header of a whole safetensors file held in `file`. On return every view
// lies inside `file`, the views do not overlap and together cover all data bytes, and each has
// exactly the bytes that its dtype and shape need. Otherwise DataError, starting with `where`.
// The data bytes themselves are not read.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file,
                                           const std::string& where);

class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::vector<NamedTensor>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const std::vector<std::string>& warnings() const { return header_.warnings; }
  const MappedFile& file() const { return file_; }
  // nullptr when there is no such tensor.
  const TensorView* find(std::string_view name) const;

 private:
  SafetensorsFile(MappedFile file, SafetensorsHeader header);

  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string_view, const TensorView*> by_name_;  // into header_.tensors
};

}  // namespace kvbench
