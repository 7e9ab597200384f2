// Where the tokens of a task come from: a corpus through the model's tokenizer, or plain ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/corpus.hpp"
#include "text/tokenizer.hpp"

namespace kvbench {

struct TokenRequest {
  // Either a corpus ...
  std::string data;  // path or manifest name; see open_corpus
  CorpusOptions corpus;
  SpecialTokens specials = SpecialTokens::text;
  InvalidUtf8 invalid_utf8 = InvalidUtf8::error;
  // ... or documents of ids, where `data` is empty.
  std::vector<std::vector<std::int32_t>> ids;

  // "none", "auto" (what the tokenizer's own post-processor adds), or an id: first of each
  // document.
  std::string bos = "none";
  std::int64_t max_tokens = 0;  // over all documents together; 0: no limit
};

struct TokenDocument {
  std::string name;
  std::vector<std::int32_t> ids;
};

struct TokenSource {
  std::vector<TokenDocument> documents;        // those after the limit are left out
  std::shared_ptr<const Tokenizer> tokenizer;  // null for plain ids
  std::string bos;                             // "none", or the id that was put first
  std::string name, path, sha256;              // of the data
  std::int64_t bytes = 0;                      // of the text as read; of the ids for plain ids
  std::int64_t replaced_utf8 = 0;              // U+FFFD that stand for bad bytes
  std::vector<std::string> warnings;

  std::int64_t total_tokens() const;
};

// The id to put first, where `bos` names one.
std::optional<std::int32_t> stated_bos(const std::string& bos);

// ConfigError for a request that names nothing, DataError for text that cannot be read.
TokenSource read_tokens(const TokenRequest& request, const std::filesystem::path& model_directory);

}  // namespace kvbench
