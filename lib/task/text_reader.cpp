// Definitions of text_reader.hpp.
#include "task/text_reader.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.hpp"

namespace kvbench {
namespace {

void note(std::vector<std::string>& warnings, const std::string& warning) {
  if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) {
    warnings.push_back(warning);
  }
}

}  // namespace

TextReader::TextReader(TokenRequest request, const std::filesystem::path& model_directory)
    : request_(std::move(request)),
      corpus_(open_corpus(request_.data, request_.corpus)),
      tokenizer_(Tokenizer::load(model_directory)),
      bos_(stated_bos(request_.bos)) {}

const TextReader::Encoded& TextReader::encoded(std::size_t document) {
  while (encoded_.size() <= document) {
    const Document& text = corpus_.documents[encoded_.size()];
    EncodeOptions options;
    options.add_bos = request_.bos == "auto";
    options.specials = request_.specials;
    options.invalid_utf8 = request_.invalid_utf8;
    options.source = text.name;
    Encoded made;
    made.ids = tokenizer_->encode(text.text, options, &made.report);
    encoded_.push_back(std::move(made));
  }
  return encoded_[document];
}

TokenSource TextReader::first_tokens(std::int64_t max_tokens) {
  TokenSource source;
  source.name = corpus_.name;
  source.path = corpus_.path;
  source.sha256 = corpus_.content_sha256;
  source.bytes = corpus_.bytes;
  source.tokenizer = tokenizer_;
  // They concern the special tokens of the files, which only --bos auto lets in.
  if (request_.bos == "auto") source.warnings = tokenizer_->warnings();
  source.bos = bos_ ? std::to_string(*bos_) : "none";
  std::int64_t left = max_tokens > 0 ? max_tokens : std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < corpus_.documents.size() && left > 0; ++i) {
    const Document& text = corpus_.documents[i];
    const auto& [ids, report] = encoded(i);
    TokenDocument document{text.name, {}};
    if (bos_) document.ids.push_back(*bos_);
    const std::int64_t wanted = std::min(std::ssize(ids), left - std::ssize(document.ids));
    document.ids.insert(document.ids.end(), ids.begin(), ids.begin() + wanted);
    left -= std::ssize(document.ids);
    source.documents.push_back(std::move(document));
    if (report.bos_added) source.bos = std::to_string(ids.front());
    source.replaced_utf8 += static_cast<std::int64_t>(report.invalid_parts);
    for (const std::string& warning : report.warnings) note(source.warnings, warning);
    if (text.had_bom && !request_.corpus.strip_bom) {
      note(source.warnings, "the text begins with a byte-order mark, which was tokenized");
    }
  }
  if (source.replaced_utf8 > 0) {
    source.warnings.push_back(
        fmt::format("{} bad UTF-8 parts were replaced by U+FFFD", source.replaced_utf8));
  }
  return source;
}

}  // namespace kvbench
