// Reading and tokenizing the documents of a task.
#include "task/token_source.hpp"

#include <limits>

#include "config/parse_number.hpp"
#include "core/error.hpp"
#include "io/sha256.hpp"
#include "task/text_reader.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

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
    if (std::ssize(document.ids) > left) document.ids.resize(static_cast<std::size_t>(left));
    left -= std::ssize(document.ids);
    source.documents.push_back(std::move(document));
  }
  source.name = "ids";
  source.sha256 = hash.hex();
}

}  // namespace

std::optional<std::int32_t> stated_bos(const std::string& bos) {
  if (bos == "none" || bos == "auto") return std::nullopt;
  return static_cast<std::int32_t>(
      parse_int(bos, 0, std::numeric_limits<std::int32_t>::max(), "--bos (none, auto or an id)"));
}

std::int64_t TokenSource::total_tokens() const {
  std::int64_t total = 0;
  for (const TokenDocument& document : documents) {
    total += static_cast<std::int64_t>(document.ids.size());
  }
  return total;
}

TokenSource read_tokens(const TokenRequest& request, const std::filesystem::path& model_directory) {
  if (request.data.empty() && request.ids.empty()) {
    config_error("no text: give --data or --ids");
  }
  if (!request.data.empty()) {
    return TextReader(request, model_directory).first_tokens(request.max_tokens);
  }
  TokenSource source;
  read_ids(request, request.max_tokens > 0 ? request.max_tokens : kNoLimit, source);
  return source;
}

}  // namespace kvbench
