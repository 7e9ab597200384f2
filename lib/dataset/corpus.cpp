// open_corpus(): finds the file, lets its format read it, then applies the options and hashes.
#include "dataset/corpus.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "core/error.hpp"
#include "dataset/manifest.hpp"
#include "dataset/registry.hpp"
#include "io/sha256.hpp"

namespace kvbench {
namespace {

constexpr std::string_view kBom = "\xEF\xBB\xBF";

std::string with_lf(const std::string& text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool crlf = text[at] == '\r' && at + 1 < text.size() && text[at + 1] == '\n';
    if (!crlf) result.push_back(text[at] == '\r' ? '\n' : text[at]);
  }
  return result;
}

void apply_options(Document& document, const CorpusOptions& options) {
  document.had_bom = document.text.starts_with(kBom);
  if (document.had_bom && options.strip_bom) document.text.erase(0, kBom.size());
  if (options.newline == Newline::lf) document.text = with_lf(document.text);
}

std::string content_hash(const std::vector<Document>& documents) {
  if (documents.size() == 1) return sha256_hex(documents.front().text);
  // A hash of hashes: joined texts alone would not tell where one document ends.
  Sha256 all;
  for (const Document& document : documents) all.update(sha256_hex(document.text) + "\n");
  return all.hex();
}

std::filesystem::path find_corpus(const std::string& spec) {
  std::filesystem::path path(spec);
  std::error_code failure;
  if (!spec.empty() && std::filesystem::exists(path, failure)) return path;
  if (const auto manifest = find_manifest(spec)) return *manifest;
  config_error(
      "data \"{}\": no such file or folder, and no manifest of that name; manifests here: {}", spec,
      manifest_names());
}

}  // namespace

const char* newline_name(Newline newline) {
  return newline == Newline::lf ? "lf" : "keep";
}

Newline parse_newline(const std::string& text) {
  if (text == "keep") return Newline::keep;
  if (text == "lf") return Newline::lf;
  config_error("newline: \"{}\" is not one of keep, lf", text);
}

Corpus open_corpus(const std::string& spec, const CorpusOptions& options) {
  if (options.max_documents < 0) {
    config_error("documents: {} is not 0 (all) or more", options.max_documents);
  }
  const std::filesystem::path path = std::filesystem::canonical(find_corpus(spec));
  const std::span<const CorpusFormat> formats = corpus_formats();
  const auto format = std::find_if(formats.begin(), formats.end(),
                                   [&](const CorpusFormat& row) { return row.matches(path); });
  if (format == formats.end()) data_error("{}: neither a file nor a folder", path.string());

  Corpus corpus = format->open(path, options);
  corpus.path = path.string();
  corpus.format = format->name;
  corpus.options = options;
  if (corpus.documents.empty()) data_error("{}: holds no documents", path.string());
  for (Document& document : corpus.documents) {
    apply_options(document, options);
    corpus.bytes += static_cast<std::int64_t>(document.text.size());
  }
  corpus.content_sha256 = content_hash(corpus.documents);
  return corpus;
}

}  // namespace kvbench
