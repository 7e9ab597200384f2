// Definitions of dataset/text_files.hpp.
#include "dataset/text_files.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "io/mapped_file.hpp"

namespace kvbench {
namespace {

std::vector<std::filesystem::path> text_files_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() == ".txt") {
      files.push_back(entry.path());
    }
  }
  // The order of a directory is the file system's own; by bytes it is the same everywhere.
  std::sort(files.begin(), files.end(), [](const auto& left, const auto& right) {
    return left.filename().native() < right.filename().native();
  });
  if (files.empty()) data_error("{}: the folder holds no .txt file", folder.string());
  return files;
}

}  // namespace

std::string read_bytes(const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  return std::string(reinterpret_cast<const char*>(file.data()), file.size());
}

bool enough_documents(const std::vector<Document>& documents, const CorpusOptions& options) {
  return options.max_documents > 0 &&
         static_cast<std::int64_t>(documents.size()) >= options.max_documents;
}

bool is_text_corpus(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) || std::filesystem::is_regular_file(path);
}

Corpus open_text_corpus(const std::filesystem::path& path, const CorpusOptions& options) {
  Corpus corpus;
  corpus.name = path.stem().string();
  const bool folder = std::filesystem::is_directory(path);
  for (const auto& file : folder ? text_files_of(path) : std::vector{path}) {
    if (enough_documents(corpus.documents, options)) break;
    corpus.documents.push_back({file.filename().string(), read_bytes(file)});
  }
  return corpus;
}

}  // namespace kvbench
