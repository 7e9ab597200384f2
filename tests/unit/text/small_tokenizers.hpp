// The small tokenizers of tests/golden/tokenizers, as they are or with changes.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "io/json_file.hpp"
#include "tests/support/temp_dir.hpp"
#include "text/tokenizer.hpp"

namespace kvbench::test {

inline std::filesystem::path small_tokenizers_dir() {
  return std::filesystem::path(KVBENCH_SOURCE_DIR) / "tests/golden/tokenizers";
}

inline std::unique_ptr<Tokenizer> load_small(const std::string& name) {
  return Tokenizer::load(small_tokenizers_dir() / name);
}

// The tokenizer after `change` has edited its document.
template <class Change>
std::unique_ptr<Tokenizer> load_changed(const std::string& name, Change&& change) {
  nlohmann::json document = read_json_file(small_tokenizers_dir() / name / "tokenizer.json");
  change(document);
  const TempDir directory;
  directory.write("tokenizer.json", document.dump());
  return Tokenizer::load(directory.path());
}

// The tokenizer with a tokenizer_config.json of that content beside it.
inline std::unique_ptr<Tokenizer> load_with_config(const std::string& name,
                                                   const std::string& config) {
  const TempDir directory;
  std::filesystem::copy(small_tokenizers_dir() / name, directory.path(),
                        std::filesystem::copy_options::recursive);
  directory.write("tokenizer_config.json", config);
  return Tokenizer::load(directory.path());
}

}  // namespace kvbench::test
