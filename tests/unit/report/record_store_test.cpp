// The folder of results: what a crash, a rerun or another editor may have left in it.
#include "report/record_store.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "config/config_hash.hpp"
#include "core/error.hpp"
#include "report/durable_file.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

RunRecord record_of(int seed, bool ok = true, double ppl = 4.5) {
  RunRecord record;
  record.task = "ppl";
  record.policy = "full";
  record.config_json = fmt::format(R"({{"seed":{}}})", seed);
  record.config_hash = config_hash_of_text(record.config_json);
  record.seed = static_cast<std::uint64_t>(seed);
  record.ok = ok;
  if (!ok) record.reason = "out of memory";
  record.metrics = {ok ? real_metric("ppl", ppl, "") : missing_metric("ppl", "", "out of memory")};
  return record;
}

std::string line_of(const std::string& hash, const std::string& status, const std::string& ppl) {
  return fmt::format(R"({{"config_hash":"{}","policy":"full","status":"{}","ppl":{}}})", hash,
                     status, ppl);
}

double ppl_of(const IndexEntry& entry) {
  return nlohmann::json::parse(entry.row_json)["ppl"];
}

TEST_CASE("record store: a file per configuration and a line per run") {
  const test::TempDir folder;
  RecordStore store(folder.path() / "deep" / "er");
  store.write(record_of(1));
  store.write(record_of(2, false));
  const IndexContents contents = RecordStore(folder.path() / "deep" / "er").read();
  REQUIRE(contents.entries.size() == 2);
  CHECK(contents.find_ok(record_of(1).config_hash) != nullptr);
  CHECK(contents.find_ok(record_of(2).config_hash) == nullptr);
  CHECK(contents.entries[1].reason == "out of memory");
  CHECK(contents.warnings.empty());
  const auto file = folder.path() / "deep" / "er" / (record_of(1).config_hash + ".json");
  CHECK(nlohmann::json::parse(content(file))["config"]["seed"] == 1);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "deep" / "er")) {
    CHECK(entry.path().extension() != ".tmp");
    ++files;
  }
  CHECK(files == 3);
}

TEST_CASE("record store: a line cut short goes, with a warning, and its run counts as not done") {
  const test::TempDir folder;
  const std::string whole = line_of("a", "ok", "4.5") + "\n" + line_of("b", "ok", "5.25") + "\n";
  const auto index = folder.write("index.jsonl", whole + R"({"config_hash":"c","pp)");
  RecordStore store(folder.path());
  REQUIRE(store.warnings().size() == 1);
  CHECK(store.warnings()[0].find("22 bytes") != std::string::npos);
  CHECK(content(index) == whole);
  CHECK(store.read().entries.size() == 2);
  store.write(record_of(1));
  CHECK(store.read().entries.size() == 3);
}

TEST_CASE("record store: a cut line between opening and writing is repaired too") {
  const test::TempDir folder;
  RecordStore store(folder.path());
  folder.write("index.jsonl", line_of("a", "ok", "4.5") + "\n{\"config_hash\":");
  const IndexContents seen = store.read();
  CHECK(seen.entries.size() == 1);
  CHECK(seen.warnings.size() == 1);
  store.write(record_of(1));
  CHECK(store.warnings().size() == 1);
  CHECK(store.read().entries.size() == 2);
  CHECK(store.read().warnings.empty());
}

TEST_CASE("record store: a whole last line without its newline counts and gets one") {
  const test::TempDir folder;
  const std::string lines = line_of("a", "ok", "4.5") + "\n" + line_of("b", "ok", "5.25");
  const auto index = folder.write("index.jsonl", lines);
  RecordStore store(folder.path());
  CHECK(store.warnings().empty());
  CHECK(content(index) == lines + "\n");
  store.write(record_of(1));
  CHECK(store.read().entries.size() == 3);
}

TEST_CASE("record store: errors run again, the last ok line counts") {
  const test::TempDir folder;
  folder.write("index.jsonl", line_of("a", "ok", "4.5") + "\n" + line_of("b", "error", "null") +
                                  "\n" + line_of("a", "ok", "4.75") + "\n" +
                                  line_of("a", "error", "null") + "\n" +
                                  line_of("b", "error", "null") + "\n");
  const IndexContents contents = RecordStore(folder.path()).read();
  REQUIRE(contents.entries.size() == 2);
  REQUIRE(contents.find_ok("a") != nullptr);
  CHECK(ppl_of(*contents.find_ok("a")) == 4.75);
  CHECK(contents.find_ok("b") == nullptr);
  CHECK(contents.warnings.size() == 1);
}

TEST_CASE("record store: Windows line ends and blank lines") {
  const test::TempDir folder;
  folder.write("index.jsonl",
               line_of("a", "ok", "4.5") + "\r\n\r\n" + line_of("b", "ok", "5.25") + "\r\n");
  const IndexContents contents = RecordStore(folder.path()).read();
  REQUIRE(contents.entries.size() == 2);
  CHECK(contents.entries[0].config_hash == "a");
}

TEST_CASE("record store: a damaged line that is not the last is an error with its number") {
  const test::TempDir folder;
  for (const std::string& bad : {std::string("{\"config_hash\":"), std::string("[]"),
                                 line_of("b", "done", "1"), std::string(R"({"status":"ok"})")}) {
    CAPTURE(bad);
    folder.write("index.jsonl",
                 line_of("a", "ok", "4.5") + "\n" + bad + "\n" + line_of("c", "ok", "4.5") + "\n");
    CHECK_THROWS_WITH_AS(RecordStore(folder.path()).read(),
                         doctest::Contains("index.jsonl, line 2"), DataError);
  }
}

TEST_CASE("record store: no index yet is an empty one") {
  const test::TempDir folder;
  CHECK(RecordStore(folder.path()).read().entries.empty());
}

TEST_CASE("record store: a record whose hash is not its configuration's is refused") {
  const test::TempDir folder;
  RunRecord record = record_of(1);
  record.config_hash = record_of(2).config_hash;
  CHECK_THROWS_AS(RecordStore(folder.path()).write(record), InternalError);
}

TEST_CASE("record store: a folder that cannot be made is an error of the request") {
  const test::TempDir folder;
  const auto file = folder.write("file", "x");
  CHECK_THROWS_AS(RecordStore(file / "results"), ConfigError);
}

TEST_CASE("record store: processes that write at once do not mix their lines") {
  const test::TempDir folder;
  constexpr int kProcesses = 4;
  constexpr int kRuns = 20;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      RecordStore store(folder.path());
      for (int run = 0; run < kRuns; ++run) store.write(record_of(process * kRuns + run));
      ::_exit(0);
    }
  }
  for (int process = 0; process < kProcesses; ++process) {
    int status = -1;
    ::wait(&status);
    CHECK(status == 0);
  }
  const IndexContents contents = RecordStore(folder.path()).read();
  CHECK(contents.entries.size() == kProcesses * kRuns);
  CHECK(contents.warnings.empty());
}

TEST_CASE("durable file: replaced whole, or left as it was") {
  const test::TempDir folder;
  const auto path = folder.write("f.json", "old");
  write_file_atomically(path, "new");
  CHECK(content(path) == "new");
  CHECK_THROWS_AS(write_file_atomically(folder.path() / "none" / "f.json", "x"), DeviceError);
}

TEST_CASE("a pipe, a folder or a device is never replaced by a file") {
  const test::TempDir folder;
  const auto pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), S_IRUSR | S_IWUSR) == 0);
  std::filesystem::create_symlink(pipe, folder.path() / "link");
  CHECK_THROWS_AS(write_file_atomically(pipe, "x"), ConfigError);
  CHECK_THROWS_AS(write_file_atomically(folder.path() / "link", "x"), ConfigError);
  CHECK_THROWS_AS(write_file_atomically(folder.path(), "x"), ConfigError);
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK(std::filesystem::is_symlink(folder.path() / "link"));
}

}  // namespace
}  // namespace kvbench
