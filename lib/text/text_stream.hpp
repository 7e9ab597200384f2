// From ids to text, one id at a time: the common ground of decode() and StreamDecoder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvbench {

// How bytes that make no whole character are shown.
enum class BadBytes : std::uint8_t {
  each_part,  // one U+FFFD for each bad part (ByteLevel)
  each_byte,  // one U+FFFD for each byte (SentencePiece)
  whole_run,  // one U+FFFD for each byte of a run of byte tokens that is bad anywhere
              // (ByteFallback)
};

// Joins the bytes of tokens to valid UTF-8.
class ByteJoiner {
 public:
  // A `live` joiner hands out each character as soon as it is whole. With `whole_run` it cannot
  // know whether the run will turn bad later; the others give the same text either way.
  ByteJoiner(BadBytes rule, bool live) : rule_(rule), live_(live) {}

  // Appends to `out` what `bytes` completes.
  void add_bytes(std::string_view bytes, std::string& out);
  // Text that is valid UTF-8 ends a run of bytes.
  void add_text(std::string_view text, std::string& out);
  // The end of a run: what is left is bad.
  void end_run(std::string& out);

 private:
  void drain(std::string& out);

  BadBytes rule_;
  bool live_;
  bool run_is_bad_ = false;
  std::string held_;  // bytes that make no whole character yet
};

// The state of one decoding. What push() and finish() append, joined, is the text.
class TextStream {
 public:
  virtual ~TextStream() = default;
  virtual void push(std::int32_t id, std::string& out) = 0;
  virtual void finish(std::string& out) = 0;
};

}  // namespace kvbench
