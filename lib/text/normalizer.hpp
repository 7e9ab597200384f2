// Normalizers of tokenizer.json: what happens to a text before it is cut into words.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.hpp"

namespace kvbench {

// One step. Read-only after construction.
class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  // `text` is valid UTF-8, and so is the result.
  virtual std::string apply(std::string_view text, RegexScratch& scratch) const = 0;
};

class Normalizer {
 public:
  // The `normalizer` of tokenizer.json; null means none. Throws DataError for a type that is not
  // supported.
  Normalizer(const nlohmann::json& spec, const std::string& file);

  std::string apply(std::string_view text, RegexScratch& scratch) const;
  bool empty() const { return steps_.empty(); }

 private:
  std::vector<std::unique_ptr<NormalizerStep>> steps_;
};

}  // namespace kvbench
