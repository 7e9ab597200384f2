// Definitions of config/parse_number.hpp, over std::from_chars (which knows no locale).
#include "config/parse_number.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "core/error.hpp"

namespace kvbench {
namespace {

[[noreturn]] void reject(std::string_view what, std::string_view text, const std::string& wanted) {
  config_error("{}: \"{}\" is not {}", what, text, wanted);
}

template <class Number>
bool convert(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

// Refuses "010", which some read as 8 and some as 10, and "-0".
bool plain_digits(std::string_view text) {
  if (text.starts_with('-')) return plain_digits(text.substr(1)) && text != "-0";
  return text.size() < 2 || text.front() != '0';
}

}  // namespace

std::int64_t parse_int(std::string_view text, std::int64_t min, std::int64_t max,
                       std::string_view what) {
  std::int64_t value = 0;
  if (!plain_digits(text) || !convert(text, value) || value < min || value > max) {
    reject(what, text, fmt::format("an integer from {} to {}", min, max));
  }
  return value;
}

std::uint64_t parse_uint64(std::string_view text, std::string_view what) {
  std::uint64_t value = 0;
  if (!plain_digits(text) || !convert(text, value)) {
    reject(what, text,
           fmt::format("an integer from 0 to {}", std::numeric_limits<std::uint64_t>::max()));
  }
  return value;
}

double parse_real(std::string_view text, double min, double max, std::string_view what) {
  double value = 0.0;
  if (!convert(text, value) || !std::isfinite(value) || value < min || value > max) {
    reject(what, text, fmt::format("a number from {} to {} with a decimal point", min, max));
  }
  return value;
}

std::vector<std::int64_t> parse_int_list(std::string_view text, std::int64_t min, std::int64_t max,
                                         std::string_view what) {
  std::vector<std::int64_t> values;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    values.push_back(parse_int(text.substr(start, comma - start), min, max, what));
    start = comma + 1;
  }
  return values;
}

}  // namespace kvbench
