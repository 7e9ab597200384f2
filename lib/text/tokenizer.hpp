// Tokenizers of Hugging Face model directories: text to ids and back.
//
// Ids and decoded text equal those of the reference library (Hugging Face `tokenizers` for
// tokenizer.json, SentencePiece for tokenizer.model, mistral-common for tekken.json); truncation
// and padding that a tokenizer.json may carry are ignored. Everything here is read-only after
// `load`, so one Tokenizer may be used from many threads.
//
//   const auto tokenizer = kvbench::Tokenizer::load("models/llama");
//   const auto ids = tokenizer->encode("Hello", {.add_bos = true});
//   const std::string text = tokenizer->decode(ids, /*skip_special=*/true);
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvbench {

class TextStream;        // text/text_stream.hpp
struct TokenizerConfig;  // text/tokenizer_config.hpp

// What a special token spelled out in the text ("<|eot_id|>" in a book) means.
enum class SpecialTokens {
  text,   // nothing: its characters are tokenized like any others (right for untrusted text)
  parse,  // it becomes its id (what the reference library does by default)
};

// What happens to bytes that are not UTF-8.
enum class InvalidUtf8 {
  error,    // DataError that gives the byte offset
  replace,  // one U+FFFD for each maximal bad part, counted in EncodeReport
};

struct EncodeOptions {
  bool add_bos = false;  // put bos_id() first; a no-op for a tokenizer that has none
  SpecialTokens specials = SpecialTokens::text;
  InvalidUtf8 invalid_utf8 = InvalidUtf8::error;
  std::string source = "text";  // what error messages call the text, e.g. a file name
};

// What `encode` did beyond tokenizing.
struct EncodeReport {
  bool bos_added = false;             // the first id was put there by add_bos
  std::size_t invalid_parts = 0;      // U+FFFD that stand for bad bytes
  std::vector<std::string> warnings;  // "no BOS ...", "text already begins with the BOS ..."
};

class Tokenizer {
 public:
  // Reads tokenizer.json, else tokenizer.model, else tekken.json, of a model directory;
  // tokenizer_config.json and generation_config.json, where present, name the BOS and the EOS
  // tokens. Throws DataError that names the file and the key for anything that is malformed or not
  // supported.
  static std::unique_ptr<Tokenizer> load(const std::filesystem::path& model_directory);

  virtual ~Tokenizer() = default;

  // Ids of `text`. `report`, if given, is overwritten.
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {},
                                   EncodeReport* report = nullptr) const;

  // Text of `ids`, always valid UTF-8: bytes that make no whole character become U+FFFD, exactly
  // as the reference has it. `skip_special` leaves out special tokens. Throws DataError for an id
  // outside [0, vocab_size()).
  std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;

  // The bytes one id stands for, which may be part of a character. A SentencePiece word keeps its
  // leading space.
  virtual std::string token_bytes(std::int32_t id) const = 0;
  // The spelling of one id in the vocabulary ("Ġthe", "▁the", "<0x0A>", "<s>").
  virtual std::string piece(std::int32_t id) const = 0;
  virtual std::optional<std::int32_t> id_of(std::string_view piece) const = 0;
  virtual bool is_special(std::int32_t id) const = 0;

  // One more than the highest id, added tokens included. A model may have more embedding rows.
  virtual std::int32_t vocab_size() const = 0;
  // The id that the tokenizer's own post-processor (or add_bos_token) puts first, if any.
  std::optional<std::int32_t> bos_id() const { return bos_id_; }
  // Ids that end a generation, ascending: eos_token_id of generation_config.json and eos_token of
  // tokenizer_config.json; without either, what tokenizer.model or tekken.json has.
  const std::vector<std::int32_t>& eos_ids() const { return eos_ids_; }
  // One line for the record: "tokenizer.json BPE, byte-level, 49152 ids, no BOS".
  std::string description() const;
  // What is odd about the files, said once per run.
  const std::vector<std::string>& warnings() const { return warnings_; }

 protected:
  // Ids of `text`, which is valid UTF-8; no BOS.
  virtual std::vector<std::int32_t> encode_text(std::string_view text,
                                                SpecialTokens specials) const = 0;
  // A new decoding; `live` when its text is shown piece by piece.
  virtual std::unique_ptr<TextStream> text_stream(bool skip_special, bool live) const = 0;
  // "tokenizer.json BPE, byte-level, 48900 merges"
  virtual std::string kind() const = 0;

  std::optional<std::int32_t> bos_id_;
  std::vector<std::int32_t> eos_ids_;
  std::vector<std::string> warnings_;

 private:
  friend class StreamDecoder;
  void set_eos(const TokenizerConfig& config);
};

// Decodes ids one by one; the texts of all calls, joined, are decode() of all ids. One exception:
// where a byte-fallback tokenizer shows whole characters before the bytes that spoil their run,
// decode() replaces those characters, too, and a stream has already shown them.
//
//   StreamDecoder stream(*tokenizer);
//   for (std::int32_t id : ids) std::cout << stream.push(id);
//   std::cout << stream.finish();
class StreamDecoder {
 public:
  // The tokenizer must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false);
  ~StreamDecoder();

  // The text that `id` completes: empty while a character is still open.
  std::string push(std::int32_t id);
  // What is left: U+FFFD for an open character. The decoder is then as new.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::unique_ptr<TextStream> stream_;
};

}  // namespace kvbench
