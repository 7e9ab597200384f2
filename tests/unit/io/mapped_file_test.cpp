// Mapping files, moving the owner, giving pages back.
#include "io/mapped_file.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

using test::contains;
using test::error_text;
using test::TempDir;

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

// Bytes of this process that are in memory and belong to files.
std::size_t resident_file_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total_pages = 0;
  std::size_t resident_pages = 0;
  std::size_t shared_pages = 0;
  statm >> total_pages >> resident_pages >> shared_pages;
  return shared_pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST_CASE("contents, empty files, and moves") {
  const TempDir dir;
  MappedFile first = MappedFile::open(dir.write("first", "hello"));
  CHECK(text_of(first) == "hello");
  CHECK(first.path() == dir.path() / "first");
  MappedFile second = MappedFile::open(dir.write("second", ""));
  CHECK(second.size() == 0);
  CHECK(second.bytes().empty());
  second.release(second.data(), 0);
  second = std::move(first);
  CHECK(text_of(second) == "hello");
  const MappedFile third(std::move(second));
  CHECK(text_of(third) == "hello");
  CHECK(third.path() == dir.path() / "first");
}

TEST_CASE("what cannot be mapped is named") {
  const TempDir dir;
  const auto message = [](const std::filesystem::path& path) {
    return error_text<DataError>([&] { MappedFile::open(path); });
  };
  CHECK(contains(message(dir.path() / "absent"), "absent: cannot open: "));
  CHECK(contains(message(dir.path()), ": not a regular file"));
  CHECK(contains(message("/dev/null"), "/dev/null: not a regular file"));
  const auto fifo = dir.path() / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(contains(message(fifo), "fifo: not a regular file"));
}

TEST_CASE("released pages leave memory and can be read again") {
  constexpr std::size_t kBytes = std::size_t{32} << 20;
  const TempDir dir;
  const MappedFile file = MappedFile::open(dir.write("big", std::string(kBytes, 'x')));
  const auto sum = [&] {
    std::size_t total = 0;
    for (const std::byte byte : file.bytes()) total += std::to_integer<std::size_t>(byte);
    return total;
  };
  CHECK(sum() == kBytes * 'x');
  const std::size_t before = resident_file_bytes();
  REQUIRE(before > kBytes / 2);
  file.release(file.data() + 1, kBytes - 1);
  CHECK(resident_file_bytes() + kBytes / 4 * 3 < before);
  CHECK(sum() == kBytes * 'x');
}

TEST_CASE("a release keeps to whole pages inside the range, and to the file") {
  const TempDir dir;
  const MappedFile file = MappedFile::open(dir.write("f", std::string(10000, 'x')));
  file.release(file.data() + 100, 50);
  file.release(file.data(), 10000);
  CHECK(text_of(file) == std::string(10000, 'x'));
  CHECK_THROWS_AS(file.release(file.data(), 10001), InternalError);
  CHECK_THROWS_AS(file.release(file.data() + 1, 10000), InternalError);
}

}  // namespace
}  // namespace kvbench
