// Text from files made fit for a one-line message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvbench {

// `text` with control bytes, invisible characters and invalid UTF-8 written as \xNN, cut after
// about `max_bytes` bytes ("..." marks the cut). Names and values from files pass through here on
// their way to a message.
std::string printable(std::string_view text, std::size_t max_bytes = 120);

}  // namespace kvbench
