// The files that the golden tests need and a clone does not hold: SmolLM2-135M-Instruct and Jane
// Austen's Emma, as datasets/ makes them. A test whose file is missing ends as skipped.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "backend/registry.hpp"
#include "model/model.hpp"

namespace kvbench::test {

constexpr int kSkipped = 77;  // CTest's SKIP_RETURN_CODE

// A file of the cache folder; ends the process as skipped where it is not there.
inline std::filesystem::path cached_file(const std::filesystem::path& name) {
  const char* cache = std::getenv("KVBENCH_CACHE");
  const char* home = std::getenv("HOME");
  const std::filesystem::path folder =
      cache != nullptr ? std::filesystem::path(cache)
                       : std::filesystem::path(home == nullptr ? "" : home) / ".cache/kvbench";
  if (!std::filesystem::exists(folder / name)) {
    MESSAGE("skipped: there is no " << (folder / name).string());
    std::exit(kSkipped);
  }
  return folder / name;
}

inline std::filesystem::path smollm2_directory() {
  return cached_file("models/smollm2-135m-instruct/model.safetensors").parent_path();
}

// One thread: reference numbers must not hang on how busy the machine is.
inline Backend& golden_backend() {
  static const std::unique_ptr<Backend> backend = make_backend("cpu", 1);
  return *backend;
}

inline const Model& smollm2() {
  static const Model model = Model::load(smollm2_directory(), golden_backend(), DType::f32);
  return model;
}

}  // namespace kvbench::test
