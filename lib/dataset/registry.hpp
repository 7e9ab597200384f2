// The corpus formats, as a table. A new format is one file plus one row in registry.cpp.
#pragma once

#include <filesystem>
#include <span>

#include "dataset/corpus.hpp"

namespace kvbench {

struct CorpusFormat {
  const char* name;
  const char* summary;  // one line, for help and `kvbench list`
  // Whether an existing path is of this format, by extension or kind; the first match wins.
  bool (*matches)(const std::filesystem::path& path);
  // Fills name, split, licence and the documents, as they are on disk.
  Corpus (*open)(const std::filesystem::path& path, const CorpusOptions& options);
};

std::span<const CorpusFormat> corpus_formats();

}  // namespace kvbench
