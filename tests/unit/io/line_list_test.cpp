// Lists in text files: what counts as an item, and files that are none.
#include "io/line_list.hpp"

#include <doctest/doctest.h>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

TEST_CASE("a list has one item a line, without comments, blank lines and line ends") {
  const test::TempDir folder;
  const auto read = [&](const char* text) {
    return read_line_list(folder.write("list.txt", text));
  };
  using Items = std::vector<std::string>;
  CHECK(read("# two\nfull\r\n\r\n\n window 8 # 1\nlast") == Items{"full", " window 8 # 1", "last"});
  CHECK(read("").empty());
  CHECK(read("#only\n").empty());
}

TEST_CASE("a list that is a folder, or not there, is refused by name") {
  const test::TempDir folder;
  for (const auto& path : {folder.path(), folder.path() / "none.txt"}) {
    const auto fault = test::error_text<ConfigError>([&] { read_line_list(path); });
    CHECK(fault == path.string() + ": cannot be read");
  }
}

}  // namespace
}  // namespace kvbench
