// Arbitrary text through small tokenizers, and arbitrary tokenizer.json and tekken.json documents.
// The first byte of the input says which. Text must come back from byte-level ids unchanged, and
// any ids must decode to valid UTF-8, the same streamed as at once.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "io/json_file.hpp"
#include "text/tekken_tokenizer.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_json.hpp"
#include "text/utf8.hpp"

namespace {

using kvbench::Tokenizer;

void require(bool promise) {
  if (!promise) std::abort();
}

struct Subject {
  std::unique_ptr<Tokenizer> tokenizer;
  bool keeps_text;     // byte level without a normalizer
  bool streams_alike;  // no byte fallback, whose decode() looks ahead
};

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> loaded = [] {
    const auto root = std::filesystem::path(KVBENCH_SOURCE_DIR) / "tests/golden/tokenizers";
    std::vector<Subject> list;
    list.push_back({Tokenizer::load(root / "llama3_like"), true, true});
    list.push_back({Tokenizer::load(root / "falcon_like"), true, true});
    list.push_back({Tokenizer::load(root / "qwen2_like"), false, true});
    list.push_back({Tokenizer::load(root / "added_tokens"), false, true});
    list.push_back({Tokenizer::load(root / "llama2_like_first"), false, false});
    list.push_back({Tokenizer::load(root / "tekken_like"), true, true});
    return list;
  }();
  return loaded;
}

void check_decoding(const Subject& subject, const std::vector<std::int32_t>& ids) {
  const std::string text = subject.tokenizer->decode(ids);
  require(!kvbench::find_invalid_utf8(text));
  kvbench::StreamDecoder stream(*subject.tokenizer);
  std::string streamed;
  for (const std::int32_t id : ids) streamed += stream.push(id);
  streamed += stream.finish();
  require(!kvbench::find_invalid_utf8(streamed));
  if (subject.streams_alike) require(streamed == text);
}

void check_text(const Subject& subject, std::string_view bytes) {
  kvbench::EncodeReport report;
  kvbench::EncodeOptions options;
  options.invalid_utf8 = kvbench::InvalidUtf8::replace;
  const auto ids = subject.tokenizer->encode(bytes, options, &report);
  if (subject.keeps_text) {
    std::size_t parts = 0;
    require(subject.tokenizer->decode(ids) == kvbench::replace_invalid_utf8(bytes, parts));
    require(parts == report.invalid_parts);
  }
  check_decoding(subject, ids);
  options.specials = kvbench::SpecialTokens::parse;
  check_decoding(subject, subject.tokenizer->encode(bytes, options));
  std::vector<std::int32_t> any;
  for (const char byte : bytes) {
    any.push_back(static_cast<unsigned char>(byte) * 2 % subject.tokenizer->vocab_size());
  }
  check_decoding(subject, any);
}

void check_any_text(const Tokenizer& tokenizer) {
  for (const std::string_view text : {"", "a b  c", "\n\n12345 \u00E9\u65E5", "<s></s>x"}) {
    const auto ids = tokenizer.encode(text, {.specials = kvbench::SpecialTokens::parse});
    require(!kvbench::find_invalid_utf8(tokenizer.decode(ids)));
  }
}

void check_document(std::string_view bytes, bool tekken) {
  try {
    const auto document = kvbench::parse_json(bytes, "fuzz");
    if (tekken) {
      check_any_text(
          kvbench::TekkenTokenizer(kvbench::read_tekken_file(document, "fuzz"), "fuzz", {}));
    } else {
      check_any_text(kvbench::JsonTokenizer(document, "fuzz", {}));
    }
  } catch (const kvbench::DataError&) {
    // The one way to refuse.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t which = data[0] % (subjects().size() + 2);
  if (which >= subjects().size()) {
    check_document(bytes, /*tekken=*/which > subjects().size());
  } else {
    check_text(subjects()[which], bytes);
  }
  return 0;
}
