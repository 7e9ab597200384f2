// Definitions of text_options.hpp.
#include "task/text_options.hpp"

#include <charconv>
#include <limits>

#include "config/parse_number.hpp"
#include "core/error.hpp"
#include "io/mapped_file.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kDryRunTokens = 48;

}  // namespace

void TextOptions::declare(SettingSet& settings) {
  settings
      .text("data", data,
            "Text: a file, a folder of .txt, a .jsonl, a manifest, or a manifest's name")
      .path = PathKind::file_or_name;
  settings.texts("ids", ids, "ID,ID,...", "Token ids in place of text, one list per document");
  settings.text("ids_file", id_file, "One document of token ids from a file").path = PathKind::file;
  Setting& tokens = settings.integer("tokens", max_tokens, 0, INT64_C(1) << 40,
                                     "Use the first so many tokens (0: all)");
  tokens.dry_run = kDryRunTokens;
  tokens.zero_is_all = true;
  settings.text("bos", bos,
                "First token of each document: none, auto (what the tokenizer adds) or an id");
  settings.choice("specials", specials, {"text", "parse"},
                  "Special tokens spelled out in the text: plain text, or parsed to their ids");
  settings.choice("newline", newline, {"keep", "lf"}, "Line ends: as they are, or CRLF read as LF");
  settings.choice("invalid_utf8", invalid_utf8, {"error", "replace"}, "Bytes that are no UTF-8");
  settings.flag("strip_bom", strip_bom, "Drop a leading byte-order mark");
}

TokenRequest TextOptions::resolve() const {
  TokenRequest request;
  request.data = data;
  request.max_tokens = max_tokens;
  request.bos = bos;
  request.specials = specials == "parse" ? SpecialTokens::parse : SpecialTokens::text;
  request.invalid_utf8 = invalid_utf8 == "replace" ? InvalidUtf8::replace : InvalidUtf8::error;
  request.corpus.newline = parse_newline(newline);
  request.corpus.strip_bom = strip_bom;
  for (const std::string& list : ids) request.ids.push_back(parse_ids(list, "--ids"));
  if (!id_file.empty()) request.ids.push_back(read_id_file(id_file));
  if (!request.data.empty() && !request.ids.empty()) {
    config_error("give either --data or --ids, not both");
  }
  if (request.data.empty() && request.ids.empty()) config_error("no text: give --data or --ids");
  return request;
}

std::vector<std::int32_t> parse_ids(const std::string& text, const std::string& what) {
  const auto ids = parse_int_list(text, 0, std::numeric_limits<std::int32_t>::max(), what);
  return {ids.begin(), ids.end()};
}

std::vector<std::int32_t> read_id_file(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  const char* text = reinterpret_cast<const char*>(file.data());
  const char* const end = text + file.size();
  std::vector<std::int32_t> ids;
  const auto is_separator = [](char c) {
    return c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '[' || c == ']';
  };
  for (const char* at = text; at != end;) {
    if (is_separator(*at)) {
      ++at;
      continue;
    }
    std::int32_t id = 0;
    const auto [next, fault] = std::from_chars(at, end, id);
    if (fault != std::errc() || id < 0 || (next != end && !is_separator(*next))) {
      data_error("{}: byte {}: expected token ids from 0 to {}, separated by commas or blanks",
                 path, at - text, std::numeric_limits<std::int32_t>::max());
    }
    ids.push_back(id);
    at = next;
  }
  return ids;
}

}  // namespace kvbench
