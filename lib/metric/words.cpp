// Definitions of words.hpp.
#include "metric/words.hpp"

#include "text/utf8.hpp"

namespace kvbench {

std::u32string code_points(std::string_view text) {
  std::u32string points;
  points.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    points.push_back(step.code_point);
    text.remove_prefix(step.byte_count);
  }
  return points;
}

bool is_python_space(char32_t code_point) {
  return is_white_space(code_point) || (code_point >= 0x1C && code_point <= 0x1F);
}

std::vector<std::u32string> split_words(std::u32string_view text) {
  std::vector<std::u32string> words;
  bool inside = false;
  for (const char32_t point : text) {
    if (is_python_space(point)) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    words.back().push_back(point);
  }
  return words;
}

}  // namespace kvbench
