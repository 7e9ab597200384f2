// Decoders of tokenizer.json: what a token's spelling stands for.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_stream.hpp"

namespace kvbench {

class JsonComponent;

// One token, decoded.
struct DecodedToken {
  std::string bytes;
  bool is_bytes;  // may be part of a character; else valid UTF-8
};

// The reference library runs each step over all tokens. Here the steps look at one token at a
// time, and Strip at the start of the joined text, so that a stream of ids decodes alike; orders
// of steps for which that is not the same are refused. Read-only after construction.
class Decoder {
 public:
  // The `decoder` of tokenizer.json; null means: spellings with spaces between.
  Decoder(const nlohmann::json& spec, const std::string& file);

  // `first`: nothing has been decoded before it.
  DecodedToken decode(std::string_view token, bool first) const;

  // Whether the reference decodes `token` the same in any company. It does not where ByteLevel
  // comes after Fuse: one token outside the alphabet then leaves the whole text as it is spelled.
  bool exact(std::string_view token) const;

  BadBytes bad_bytes() const;
  // Stands between tokens.
  std::string_view separator() const { return separator_; }
  // Up to `count` times `text` is left out at the start of the joined text.
  struct Strip {
    std::string text;
    std::size_t count = 0;
  };
  const Strip& strip() const { return strip_; }

 private:
  // Replaces a string in a token; what Metaspace does is a replacement that drops the string in
  // the first token.
  struct Replacement {
    std::string from;
    std::string to;
    bool drop_in_first;
  };

  void add_step(const JsonComponent& step);
  void add_replacement(const JsonComponent& step);
  void add_strip(const JsonComponent& step);
  std::string replaced(std::string_view token, bool first) const;

  std::vector<Replacement> replacements_;
  bool byte_fallback_ = false;
  bool byte_level_ = false;
  bool fused_ = false;
  bool byte_level_after_fuse_ = false;
  bool replaces_after_bytes_ = false;
  Strip strip_;
  std::string separator_;
};

}  // namespace kvbench
