// The "text" format: one file is one document, whatever its extension; a folder is its .txt files
// in byte order of their names.
#pragma once

#include <filesystem>

#include "dataset/corpus.hpp"

namespace kvbench {

bool is_text_corpus(const std::filesystem::path& path);
Corpus open_text_corpus(const std::filesystem::path& path, const CorpusOptions& options);

// The bytes of a file. Throws DataError when it is missing or cannot be read.
std::string read_bytes(const std::filesystem::path& path);

// Whether a reader that has `documents` so far should stop.
bool enough_documents(const std::vector<Document>& documents, const CorpusOptions& options);

}  // namespace kvbench
