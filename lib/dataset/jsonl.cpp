// Definitions of dataset/jsonl.hpp.
#include "dataset/jsonl.hpp"

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "dataset/json_lines.hpp"
#include "dataset/text_files.hpp"
#include "io/json_reader.hpp"

namespace kvbench {

bool is_jsonl_corpus(const std::filesystem::path& path) {
  return std::filesystem::is_regular_file(path) && path.extension() == ".jsonl";
}

Corpus open_jsonl_corpus(const std::filesystem::path& path, const CorpusOptions& options) {
  Corpus corpus;
  corpus.name = path.stem().string();
  const std::string content = read_bytes(path);
  const auto take = [&](const nlohmann::json& row, const std::string& where, std::int64_t number) {
    if (enough_documents(corpus.documents, options)) return false;
    const JsonReader reader(row, where, JsonErrors::data);
    corpus.documents.push_back({fmt::format("line {}", number), reader.require_string("text")});
    return true;
  };
  read_json_lines(content, path.string(), take);
  return corpus;
}

}  // namespace kvbench
