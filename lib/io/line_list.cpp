// Definition of line_list.hpp.
#include "io/line_list.hpp"

#include <fstream>

#include "core/error.hpp"

namespace kvbench {

std::vector<std::string> read_line_list(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !line.starts_with('#')) lines.push_back(line);
  }
  // A folder can be opened, but not read.
  if (!file.eof() || file.bad()) config_error("{}: cannot be read", path.string());
  return lines;
}

}  // namespace kvbench
