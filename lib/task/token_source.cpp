// Reading and tokenizing the documents of a task.
#include "task/token_source.hpp"

#include <algorithm>
#include <limits>

#include "config/parse_number.hpp"
#include "core/error.hpp"
#include "io/sha256.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// The id to put first, if any, when `bos` names one.
std::optional<std::int32_t> stated_bos(const std::string& bos) {
  if (bos == "none" || bos == "auto") return std::nullopt;
  return static_cast<std::int32_t>(
      parse_int(bos, 0, std::numeric_limits<std::int32_t>::max(), "--bos (none, auto or an id)"));
}

void add_document(TokenSource& source, TokenDocument document, std::int64_t& left) {
  if (static_cast<std::int64_t>(document.ids.size()) > left) {
    document.ids.resize(static_cast<std::size_t>(left));
  }
  left -= static_cast<std::int64_t>(document.ids.size());
  source.documents.push_back(std::move(document));
}

void read_ids(const TokenRequest& request, std::int64_t left, TokenSource& source) {
  const auto bos = stated_bos(request.bos);
  source.bos = bos ? std::to_string(*bos) : "none";
  Sha256 hash;
  for (std::size_t i = 0; i < request.ids.size(); ++i) {
    const std::span<const std::int32_t> ids(request.ids[i]);
    const std::string size = std::to_string(ids.size()) + "\n";
    hash.update(std::as_bytes(std::span<const char>(size.data(), size.size())));
    hash.update(std::as_bytes(ids));
    source.bytes += static_cast<std::int64_t>(ids.size_bytes());
    if (left <= 0) continue;
    TokenDocument document{fmt::format("ids {}", i + 1), {}};
    if (bos) document.ids.push_back(*bos);
    document.ids.insert(document.ids.end(), ids.begin(), ids.end());
    add_document(source, std::move(document), left);
  }
  source.name = "ids";
  source.sha256 = hash.hex();
}

void note(std::vector<std::string>& warnings, const std::string& warning) {
  if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) {
    warnings.push_back(warning);
  }
}

void read_corpus(const TokenRequest& request, const std::filesystem::path& model_directory,
                 std::int64_t left, TokenSource& source) {
  const Corpus corpus = open_corpus(request.data, request.corpus);
  source.name = corpus.name;
  source.path = corpus.path;
  source.sha256 = corpus.content_sha256;
  source.bytes = corpus.bytes;
  source.tokenizer = Tokenizer::load(model_directory);
  // They concern the special tokens of the files, which only --bos auto lets in.
  if (request.bos == "auto") source.warnings = source.tokenizer->warnings();
  const auto bos = stated_bos(request.bos);
  source.bos = bos ? std::to_string(*bos) : "none";
  for (const Document& text : corpus.documents) {
    if (left <= 0) break;
    EncodeOptions options;
    options.add_bos = request.bos == "auto";
    options.specials = request.specials;
    options.invalid_utf8 = request.invalid_utf8;
    options.source = text.name;
    EncodeReport report;
    TokenDocument document{text.name, {}};
    if (bos) document.ids.push_back(*bos);
    const std::vector<std::int32_t> ids = source.tokenizer->encode(text.text, options, &report);
    document.ids.insert(document.ids.end(), ids.begin(), ids.end());
    if (report.bos_added) source.bos = std::to_string(ids.front());
    source.replaced_utf8 += static_cast<std::int64_t>(report.invalid_parts);
    for (const std::string& warning : report.warnings) note(source.warnings, warning);
    if (text.had_bom && !request.corpus.strip_bom) {
      note(source.warnings, "the text begins with a byte-order mark, which was tokenized");
    }
    add_document(source, std::move(document), left);
  }
  if (source.replaced_utf8 > 0) {
    source.warnings.push_back(
        fmt::format("{} bad UTF-8 parts were replaced by U+FFFD", source.replaced_utf8));
  }
}

}  // namespace

std::int64_t TokenSource::total_tokens() const {
  std::int64_t total = 0;
  for (const TokenDocument& document : documents) {
    total += static_cast<std::int64_t>(document.ids.size());
  }
  return total;
}

TokenSource read_tokens(const TokenRequest& request, const std::filesystem::path& model_directory) {
  TokenSource source;
  const std::int64_t limit = request.max_tokens > 0 ? request.max_tokens : kNoLimit;
  if (request.data.empty() && request.ids.empty()) {
    config_error("no text: give --data or --ids");
  }
  if (request.data.empty()) {
    read_ids(request, limit, source);
  } else {
    read_corpus(request, model_directory, limit, source);
  }
  return source;
}

}  // namespace kvbench
