// Small text files that list things the user asks for: one a line, blank lines and lines that begin
// with # left out, either kind of line end.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvbench {

// ConfigError where the file cannot be read.
std::vector<std::string> read_line_list(const std::filesystem::path& path);

}  // namespace kvbench
