// Definitions of json_lines.hpp.
#include "dataset/json_lines.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/json_file.hpp"

namespace kvbench {

void read_json_lines(std::string_view content, const std::string& file,
                     const std::function<bool(const nlohmann::json& row, const std::string& where,
                                              std::int64_t number)>& take) {
  for (std::int64_t number = 1; !content.empty(); ++number) {
    const std::size_t length = std::min(content.find('\n'), content.size());
    const std::string_view line = content.substr(0, length);
    content.remove_prefix(std::min(length + 1, content.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}, line {}", file, number);
    if (!take(parse_json(line, where, {.allow_bom = number == 1}), where, number)) return;
  }
}

}  // namespace kvbench
