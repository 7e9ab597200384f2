// Definitions of jinja_strings.hpp. Letters and their cases come from utf8proc.
#include "text/jinja_strings.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "text/utf8.hpp"

namespace kvbench {
namespace {

bool is_space(std::string_view character) {
  const Utf8Step step = utf8_step(character);
  return step.kind == Utf8Kind::complete && is_white_space(step.code_point);
}

}  // namespace

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t bytes = utf8_step(text).byte_count;
    parts.push_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return parts;
}

std::string strip(std::string_view text, StripSide side, std::optional<std::string_view> set) {
  const std::vector<std::string_view> parts = characters(text);
  std::vector<std::string_view> dropped;
  if (set) dropped = characters(*set);
  const auto goes = [&](std::string_view part) {
    return set ? std::find(dropped.begin(), dropped.end(), part) != dropped.end() : is_space(part);
  };
  std::size_t first = 0;
  std::size_t end = parts.size();
  while (side != StripSide::right && first < end && goes(parts[first])) ++first;
  while (side != StripSide::left && end > first && goes(parts[end - 1])) --end;
  std::string out;
  for (std::size_t i = first; i < end; ++i) out += parts[i];
  return out;
}

std::string with_case(std::string_view text, LetterCase letter_case) {
  std::string out;
  bool starts = true;  // of a word, or of the text
  for (const std::string_view part : characters(text)) {
    const Utf8Step step = utf8_step(part);
    if (step.kind != Utf8Kind::complete) {
      out += part;
      continue;
    }
    const auto code = static_cast<utf8proc_int32_t>(step.code_point);
    const bool raised =
        letter_case == LetterCase::upper || (letter_case != LetterCase::lower && starts);
    append_utf8(static_cast<char32_t>(raised ? utf8proc_toupper(code) : utf8proc_tolower(code)),
                out);
    const auto category = utf8proc_category(code);
    const bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    starts = letter_case == LetterCase::title && !letter;
  }
  return out;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  if (from.empty()) {  // as Python has it: between all characters and around them
    for (const std::string_view part : characters(text)) {
      out += to;
      out += part;
    }
    return out += to;
  }
  std::size_t at = 0;
  for (std::size_t found = text.find(from); found != std::string_view::npos;
       found = text.find(from, at)) {
    out += text.substr(at, found - at);
    out += to;
    at = found + from.size();
  }
  return out += text.substr(at);
}

std::vector<std::string> split(std::string_view text, std::optional<std::string_view> separator,
                               std::int64_t most) {
  std::vector<std::string> parts;
  const auto may_cut = [&] { return most < 0 || std::ssize(parts) < most; };
  if (separator) {
    std::size_t at = 0;
    std::size_t found = text.find(*separator);
    while (found != std::string_view::npos && may_cut()) {
      parts.emplace_back(text.substr(at, found - at));
      at = found + separator->size();
      found = text.find(*separator, at);
    }
    parts.emplace_back(text.substr(at));
    return parts;
  }
  while (true) {
    while (!text.empty() && is_space(text)) text.remove_prefix(utf8_step(text).byte_count);
    if (text.empty()) return parts;
    if (!may_cut()) {
      parts.push_back(strip(text, StripSide::right, std::nullopt));
      return parts;
    }
    std::size_t end = 0;
    while (end < text.size() && !is_space(text.substr(end))) {
      end += utf8_step(text.substr(end)).byte_count;
    }
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::int64_t> slice_indices(std::int64_t size, std::optional<std::int64_t> first,
                                        std::optional<std::int64_t> end, std::int64_t step) {
  const auto clamp = [&](std::int64_t index) {
    const std::int64_t from_front = index < 0 ? std::max(index, -size - 1) + size : index;
    const std::int64_t lowest = step < 0 ? -1 : 0;
    return std::clamp(from_front, lowest, step < 0 ? size - 1 : size);
  };
  std::vector<std::int64_t> indices;
  if (step == 0 || size == 0) return indices;
  step = std::clamp(step, -size, size);
  const std::int64_t begin = first ? clamp(*first) : (step < 0 ? size - 1 : 0);
  const std::int64_t stop = end ? clamp(*end) : (step < 0 ? -1 : size);
  for (std::int64_t i = begin; step > 0 ? i < stop : i > stop; i += step) indices.push_back(i);
  return indices;
}

}  // namespace kvbench
