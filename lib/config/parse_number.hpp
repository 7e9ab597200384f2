// Strict numbers from text, the same in every locale: the whole text must be one decimal number
// inside the range. No sign wrap, no octal, no hexadecimal, no blanks, no NaN, no infinity.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvbench {

// `what` names the option or key in the ConfigError.
std::int64_t parse_int(std::string_view text, std::int64_t min, std::int64_t max,
                       std::string_view what);
std::uint64_t parse_uint64(std::string_view text, std::string_view what);
double parse_real(std::string_view text, double min, double max, std::string_view what);

// "1,2,3"; an empty text or an empty place between commas is an error.
std::vector<std::int64_t> parse_int_list(std::string_view text, std::int64_t min, std::int64_t max,
                                         std::string_view what);

}  // namespace kvbench
