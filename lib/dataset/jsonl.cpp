// Definitions of dataset/jsonl.hpp.
#include "dataset/jsonl.hpp"

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/error.hpp"
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
  std::string_view rest = content;
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    if (enough_documents(corpus.documents, options)) break;
    const std::size_t length = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, length);
    rest.remove_prefix(std::min(length + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;

    const std::string where = fmt::format("{}, line {}", path.string(), number);
    const nlohmann::json row = parse_json(line, where, {.allow_bom = number == 1});
    const JsonReader reader(row, where, JsonErrors::data);
    corpus.documents.push_back({fmt::format("line {}", number), reader.require_string("text")});
  }
  return corpus;
}

}  // namespace kvbench
