// The "jsonl" format: one JSON object a line, whose member "text" is a document.
#pragma once

#include <filesystem>

#include "dataset/corpus.hpp"

namespace kvbench {

bool is_jsonl_corpus(const std::filesystem::path& path);
Corpus open_jsonl_corpus(const std::filesystem::path& path, const CorpusOptions& options);

}  // namespace kvbench
