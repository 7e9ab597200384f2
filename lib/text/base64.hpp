// Base64 (RFC 4648, section 4), which tokenizer files write bytes in.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kvbench {

// The bytes of `text`; nothing unless it is padded, without white space and in its one right
// spelling (unused bits are zero).
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace kvbench
