// What all tokenizers share: loading, validation of text, BOS, decoding.
#include "text/tokenizer.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "io/json_file.hpp"
#include "text/sentencepiece_model.hpp"
#include "text/tekken_tokenizer.hpp"
#include "text/text_stream.hpp"
#include "text/tokenizer_config.hpp"
#include "text/tokenizer_json.hpp"
#include "text/utf8.hpp"

namespace kvbench {
namespace {

// The valid text that is to be encoded: `text` itself or, with bad parts replaced, `storage`.
std::string_view valid_text(std::string_view text, const EncodeOptions& options,
                            EncodeReport& report, std::string& storage) {
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    data_error("{}: {} bytes are too many for one text; split it", options.source, text.size());
  }
  const auto invalid = find_invalid_utf8(text);
  if (!invalid) return text;
  if (options.invalid_utf8 == InvalidUtf8::error) {
    data_error(
        "{}: invalid UTF-8 at byte {} (0x{:02x}); convert the text, or ask for replacement by "
        "U+FFFD",
        options.source, *invalid, static_cast<unsigned char>(text[*invalid]));
  }
  storage = replace_invalid_utf8(text, report.invalid_parts);
  return storage;
}

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::load(const std::filesystem::path& model_directory) {
  const TokenizerConfig config = read_tokenizer_config(model_directory);
  const auto json_path = model_directory / "tokenizer.json";
  const auto model_path = model_directory / "tokenizer.model";
  const auto tekken_path = model_directory / "tekken.json";
  std::unique_ptr<Tokenizer> tokenizer;
  if (std::filesystem::exists(json_path)) {
    tokenizer =
        std::make_unique<JsonTokenizer>(read_json_file(json_path), json_path.string(), config);
  } else if (std::filesystem::exists(model_path)) {
    tokenizer = std::make_unique<SentencePieceTokenizer>(model_path, config);
  } else if (std::filesystem::exists(tekken_path)) {
    tokenizer = std::make_unique<TekkenTokenizer>(
        read_tekken_file(read_json_file(tekken_path), tekken_path.string()), tekken_path.string(),
        config);
  } else {
    data_error("{}: found none of tokenizer.json, tokenizer.model, tekken.json",
               model_directory.string());
  }
  tokenizer->set_eos(config);
  return tokenizer;
}

void Tokenizer::set_eos(const TokenizerConfig& config) {
  std::vector<std::int32_t> ids = config.eos_ids;
  if (config.eos_token) {
    const auto id = id_of(*config.eos_token);
    if (!id) {
      data_error("{}: key eos_token: \"{}\" is not in the vocabulary", config.file,
                 *config.eos_token);
    }
    ids.push_back(*id);
  }
  if (!ids.empty()) eos_ids_ = std::move(ids);
  std::sort(eos_ids_.begin(), eos_ids_.end());
  eos_ids_.erase(std::unique(eos_ids_.begin(), eos_ids_.end()), eos_ids_.end());
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options,
                                            EncodeReport* report) const {
  EncodeReport done;
  std::string storage;
  std::vector<std::int32_t> ids =
      encode_text(valid_text(text, options, done, storage), options.specials);
  if (options.add_bos && !bos_id_) {
    done.warnings.emplace_back("no BOS: this tokenizer has none, so none was added");
  } else if (options.add_bos && !ids.empty() && ids.front() == *bos_id_) {
    done.warnings.push_back(
        fmt::format("{}: already begins with the BOS token {}; no second one was added",
                    options.source, piece(*bos_id_)));
  } else if (options.add_bos) {
    ids.insert(ids.begin(), *bos_id_);
    done.bos_added = true;
  }
  if (report != nullptr) *report = std::move(done);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  const auto stream = text_stream(skip_special, /*live=*/false);
  std::string text;
  for (const std::int32_t id : ids) stream->push(id, text);
  stream->finish(text);
  return text;
}

std::string Tokenizer::description() const {
  return fmt::format("{}, {} ids, {}", kind(), vocab_size(),
                     bos_id_ ? "BOS " + piece(*bos_id_) : std::string("no BOS"));
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(tokenizer),
      skip_special_(skip_special),
      stream_(tokenizer.text_stream(skip_special, /*live=*/true)) {}

StreamDecoder::~StreamDecoder() = default;

std::string StreamDecoder::push(std::int32_t id) {
  std::string text;
  stream_->push(id, text);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  stream_->finish(text);
  stream_ = tokenizer_.text_stream(skip_special_, /*live=*/true);
  return text;
}

}  // namespace kvbench
