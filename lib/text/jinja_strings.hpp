// Python's string operations as chat templates use them, over characters, not bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvbench {

// The characters of a text; bad bytes stand for themselves.
std::vector<std::string_view> characters(std::string_view text);

enum class StripSide : std::uint8_t { both, left, right };
// Without `set`: white space, as Unicode has it.
std::string strip(std::string_view text, StripSide side, std::optional<std::string_view> set);

enum class LetterCase : std::uint8_t { lower, upper, title, capital };
std::string with_case(std::string_view text, LetterCase letter_case);

std::string replace_all(std::string_view text, std::string_view from, std::string_view to);
// Python's split: without a separator at white space, empty parts left out. At most `most` cuts,
// where it is not negative.
std::vector<std::string> split(std::string_view text, std::optional<std::string_view> separator,
                               std::int64_t most);

// As json.dumps with ensure_ascii=False has it.
std::string json_string(std::string_view text);

// Indices of a Python slice of something with `size` parts. A step of 0 gives none.
std::vector<std::int64_t> slice_indices(std::int64_t size, std::optional<std::int64_t> first,
                                        std::optional<std::int64_t> end, std::int64_t step);

}  // namespace kvbench
