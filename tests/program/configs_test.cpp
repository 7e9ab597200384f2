// The committed sweeps: each is read, expanded, checked and planned by the built program. Their
// model and text are stood in for by small ones, as plans read neither weights nor results.
#include <doctest/doctest.h>

#include <filesystem>
#include <vector>

#include "tests/program/program.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::contains;
using test::run_program;

std::filesystem::path configs_folder() {
  return std::filesystem::path(KVBENCH_SOURCE_DIR) / "configs";
}

// Every file of the folder that says it is a sweep.
std::vector<std::filesystem::path> committed_sweeps() {
  std::vector<std::filesystem::path> sweeps;
  for (const auto& entry : std::filesystem::directory_iterator(configs_folder())) {
    if (entry.path().extension() != ".json") continue;
    const json document = json::parse(test::read_text(entry.path()));
    if (document.value("$schema", "") == "sweep.schema.json") sweeps.push_back(entry.path());
  }
  return sweeps;
}

// A folder in the place of the user's: the model and the books that committed sweeps name.
void make_cache(const test::TempDir& cache) {
  const auto model = cache.path() / "models/smollm2-135m-instruct";
  const auto books = cache.path() / "books/janeausten";
  std::filesystem::create_directories(model.parent_path());
  std::filesystem::create_directories(books);
  std::filesystem::copy(test::tiny_model("llama"), model);
  std::filesystem::copy_file(std::filesystem::path(KVBENCH_SOURCE_DIR) /
                                 "tests/golden/tokenizers/llama3_like/tokenizer.json",
                             model / "tokenizer.json");
  std::string text;
  for (int line = 0; line < 4000; ++line)
    text += "The fox jumps over number " + std::to_string(line) + ".\n";
  std::ofstream(books / "emma.txt") << text;
}

TEST_CASE("every committed sweep can be planned, and says what it is for") {
  const test::TempDir cache;
  make_cache(cache);
  const auto sweeps = committed_sweeps();
  CHECK(sweeps.size() >= 11);
  for (const std::filesystem::path& path : sweeps) {
    CAPTURE(path);
    const json document = json::parse(test::read_text(path));
    CHECK(document.value("description", "").size() > 60);
    CHECK(document.value("out", "") == "../results/" + path.stem().string());
    const auto plan =
        run_program({"sweep", path.string(), "--plan"}, "KVBENCH_CACHE=" + cache.path().string());
    CAPTURE(plan.err);
    CHECK(plan.exit_code == 0);
    CHECK(contains(plan.out, " cells in "));
    CHECK(!contains(plan.out, ", 0 tokens"));
  }
}

}  // namespace
}  // namespace kvbench
