// Options of `kvbench tokenize`, and its two directions.
#include "apps/kvbench/tokenize_command.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/kvbench/options.hpp"
#include "core/error.hpp"
#include "io/mapped_file.hpp"
#include "text/tokenizer.hpp"

namespace kvbench {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

enum class Input : std::uint8_t { standard_input, text, file, ids };

struct TokenizeOptions {
  SettingSet settings;
  std::string model;
  Input input = Input::standard_input;
  std::string text;
  std::string file;
  std::vector<std::int64_t> ids;
  std::string specials = "text";
  std::string invalid_utf8 = "error";
  bool bos = false;
  bool strip_bom = false;
  bool skip_special = false;
  bool pieces = false;
  bool json = false;
};

// Bytes as they are: no newline is translated.
std::string read_input(const TokenizeOptions& options) {
  switch (options.input) {
    case Input::text:
      return options.text;
    case Input::file: {
      const MappedFile file = MappedFile::open(options.file);
      const auto* bytes = reinterpret_cast<const char*>(file.data());
      return file.size() == 0 ? std::string() : std::string(bytes, file.size());
    }
    default:
      break;
  }
  std::string bytes(std::istreambuf_iterator<char>(std::cin), {});
  if (std::cin.bad()) data_error("standard input: cannot be read");
  return bytes;
}

std::string source_name(const TokenizeOptions& options) {
  if (options.input == Input::file) return options.file;
  return options.input == Input::text ? "--text" : "standard input";
}

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) fmt::print(stderr, "warning: {}\n", warning);
}

void print_encoding(const TokenizeOptions& options, const Tokenizer& tokenizer,
                    const std::vector<std::int32_t>& ids, const EncodeReport& report) {
  std::vector<std::string> pieces;
  if (options.json || options.pieces) {
    for (const std::int32_t id : ids) pieces.push_back(tokenizer.piece(id));
  }
  if (options.json) {
    const ordered_json document = {{"ids", ids},
                                   {"pieces", pieces},
                                   {"n", ids.size()},
                                   {"bos", report.bos_added},
                                   {"specials", options.specials},
                                   {"invalid_parts", report.invalid_parts},
                                   {"tokenizer", tokenizer.description()},
                                   {"warnings", report.warnings}};
    fmt::print("{}\n", dump(document));
    return;
  }
  print_warnings(report.warnings);
  fmt::print("{}\n", fmt::join(ids, " "));
  if (!options.pieces) return;
  for (std::string& piece : pieces) piece = dump(piece);
  fmt::print("{}\n", fmt::join(pieces, " "));
}

void encode(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  const std::string bytes = read_input(options);
  std::string_view text = bytes;
  if (options.strip_bom && text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  EncodeOptions how;
  how.add_bos = options.bos;
  how.specials = options.specials == "parse" ? SpecialTokens::parse : SpecialTokens::text;
  how.invalid_utf8 = options.invalid_utf8 == "replace" ? InvalidUtf8::replace : InvalidUtf8::error;
  how.source = source_name(options);
  EncodeReport report;
  const auto ids = tokenizer.encode(text, how, &report);
  report.warnings.insert(report.warnings.begin(), tokenizer.warnings().begin(),
                         tokenizer.warnings().end());
  print_encoding(options, tokenizer, ids, report);
}

void decode(const TokenizeOptions& options, const Tokenizer& tokenizer) {
  const std::vector<std::int32_t> ids(options.ids.begin(), options.ids.end());
  const std::string text = tokenizer.decode(ids, options.skip_special);
  if (options.json) {
    fmt::print("{}\n", dump({{"text", text}, {"ids", ids}, {"n", ids.size()}}));
  } else {
    fmt::print("{}\n", text);
  }
}

Input chosen_input(const TokenizeOptions& options) {
  const int sources = (options.text.empty() ? 0 : 1) + (options.file.empty() ? 0 : 1) +
                      (options.ids.empty() ? 0 : 1);
  if (sources > 1) config_error("give one of --text, --file and --ids");
  if (!options.text.empty()) return Input::text;
  if (!options.file.empty()) return Input::file;
  return options.ids.empty() ? Input::standard_input : Input::ids;
}

void run(const TokenizeOptions& options) {
  const auto tokenizer = Tokenizer::load(options.model);
  if (options.input == Input::ids) {
    decode(options, *tokenizer);
  } else {
    encode(options, *tokenizer);
  }
}

}  // namespace

void add_tokenize_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("tokenize",
                         "Turn a text into ids, or ids into text (text from standard "
                         "input unless --text, --file or --ids is given)");
  const auto options = std::make_shared<TokenizeOptions>();
  SettingSet& settings = options->settings;
  settings.text("model", options->model, "Model directory").required = true;
  settings.text("text", options->text, "Text to encode");
  settings.text("file", options->file, "File to encode, bytes as they are");
  settings.integers("ids", options->ids, 0, std::numeric_limits<std::int32_t>::max(),
                    "Ids to decode: 1,2,3");
  settings.choice("specials", options->specials, {"text", "parse"},
                  "What special tokens spelled out in the text are");
  settings.flag("bos", options->bos, "Put the tokenizer's BOS token first");
  settings.choice("invalid_utf8", options->invalid_utf8, {"error", "replace"},
                  "What becomes of bytes that are not UTF-8");
  settings.flag("strip_bom", options->strip_bom, "Leave out a byte order mark");
  settings.flag("skip_special", options->skip_special, "Decode without special tokens");
  settings.flag("pieces", options->pieces, "Print the pieces, too");
  settings.flag("json", options->json, "Print one JSON document");
  add_settings(*command, settings);
  command->footer(
      "Examples:\n"
      "  kvbench tokenize --model models/llama --text \"Hello\" --bos --pieces\n"
      "  kvbench tokenize --model models/llama --ids 9906,1917");
  command->callback([options] {
    options->input = chosen_input(*options);
    run(*options);
  });
}

}  // namespace kvbench
