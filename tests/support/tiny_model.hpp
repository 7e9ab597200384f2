// The tiny checkpoints of tests/golden/tiny, and model directories of a test's own made from them.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "io/checkpoint.hpp"
#include "tests/support/safetensors_builder.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench::test {

struct OwnedTensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::string bytes;
};

inline std::filesystem::path golden_directory() {
  return std::filesystem::path(KVBENCH_SOURCE_DIR) / "tests" / "golden";
}

// A folder of tests/golden/tiny, which holds a whole model directory.
inline std::filesystem::path tiny_model(const std::string& name) {
  return golden_directory() / "tiny" / name;
}

inline nlohmann::json read_golden(const std::string& file) {
  return nlohmann::json::parse(std::ifstream(golden_directory() / file));
}

inline nlohmann::json tiny_config(const std::string& name) {
  return read_golden("tiny/" + name + "/config.json");
}

// Copies of all tensors of a tiny model, to be changed and written again.
inline std::vector<OwnedTensor> tiny_tensors(const std::string& name) {
  const Checkpoint checkpoint = Checkpoint::open(tiny_model(name));
  std::vector<OwnedTensor> copies;
  for (const std::string& tensor : checkpoint.names()) {
    const TensorView& view = checkpoint.require(tensor);
    copies.push_back({tensor, view.dtype, view.shape,
                      std::string(reinterpret_cast<const char*>(view.data), view.byte_count())});
  }
  return copies;
}

inline void write_config(const TempDir& directory, const nlohmann::json& config) {
  directory.write("config.json", config.dump());
}

inline void write_tensors(const TempDir& directory, const std::vector<OwnedTensor>& tensors) {
  SafetensorsBuilder file;
  for (const OwnedTensor& tensor : tensors) {
    file.add(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
  }
  directory.write("model.safetensors", file.bytes());
}

}  // namespace kvbench::test
