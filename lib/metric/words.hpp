// Cutting text for answer metrics: code points, and words between blanks as Python has them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvbench {

// Of valid UTF-8.
std::u32string code_points(std::string_view text);

// White space as Python's str.isspace: Unicode's, and the four separators U+001C to U+001F.
bool is_python_space(char32_t code_point);

// The runs of characters that are no white space.
std::vector<std::u32string> split_words(std::u32string_view text);

}  // namespace kvbench
