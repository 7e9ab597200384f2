// What the question task runs on in tests: a tiny random checkpoint with a tokenizer that puts a
// BOS first (id 420), and the samples of tests/golden/qa.
#pragma once

#include <filesystem>
#include <string>

#include "tests/support/random_model.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench::test {

// More rows than the tokenizer's 423 ids, as in models whose vocabulary is padded.
inline constexpr std::int64_t kTinyQaVocab = 600;

inline std::string qa_samples(const std::string& file = "") {
  return std::string(KVBENCH_SOURCE_DIR) + "/tests/golden/qa/" + file;
}

inline void write_tiny_qa_model(const TempDir& folder) {
  RandomModelShape shape;
  shape.vocab = kTinyQaVocab;
  write_random_llama(folder, shape, 5);
  const auto tokenizer =
      std::filesystem::path(KVBENCH_SOURCE_DIR) / "tests/golden/tokenizers/llama3_like";
  std::filesystem::copy(tokenizer, folder.path(), std::filesystem::copy_options::recursive);
}

}  // namespace kvbench::test
