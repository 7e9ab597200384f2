// The small tokenizers of tests/golden/tokenizers.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "text/tokenizer.hpp"

namespace kvbench::test {

inline std::filesystem::path small_tokenizers_dir() {
  return std::filesystem::path(KVBENCH_SOURCE_DIR) / "tests/golden/tokenizers";
}

inline std::unique_ptr<Tokenizer> load_small(const std::string& name) {
  return Tokenizer::load(small_tokenizers_dir() / name);
}

}  // namespace kvbench::test
