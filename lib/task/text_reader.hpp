// A text through a model's tokenizer, each document encoded once, however often and to whatever
// length it is asked for.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "task/token_source.hpp"

namespace kvbench {

class TextReader {
 public:
  // Opens what `request.data` names. Its max_tokens is of no account. Errors as read_tokens.
  TextReader(TokenRequest request, const std::filesystem::path& model_directory);

  // The first so many tokens over all documents together; 0: all.
  TokenSource first_tokens(std::int64_t max_tokens);

 private:
  struct Encoded {
    std::vector<std::int32_t> ids;
    EncodeReport report;
  };

  const Encoded& encoded(std::size_t document);

  TokenRequest request_;
  Corpus corpus_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<std::int32_t> bos_;
  std::vector<Encoded> encoded_;  // the first documents
};

}  // namespace kvbench
