// `kvbench compare` and `kvbench report` from outside, on records that `kvbench ppl` made.
#include <doctest/doctest.h>

#include "tests/program/program.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::contains;
using test::fault_of;
using test::run_program;

const std::string kForty =
    "1,5,9,2,7,3,11,4,30,17,23,8,14,6,21,10,19,12,27,13,25,16,31,3,18,22,9,29,5,20,28,15,24,7,26,"
    "0,11,17,6,2";
const std::string kThirty =
    "2,6,17,11,0,26,7,24,15,28,20,5,29,9,22,18,3,31,16,25,13,27,12,19,10,21,6,14,8,23";

void make_results(const std::filesystem::path& folder, const std::vector<std::string>& policies,
                  const std::string& threads = "1", const std::string& model = "llama") {
  std::vector<std::string> arguments = {"ppl",   "--model",       test::tiny_model(model).string(),
                                        "--ids", kForty,          "--ids",
                                        kThirty, "--threads",     threads,
                                        "--out", folder.string(), "--quiet"};
  for (const std::string& policy : policies) {
    arguments.insert(arguments.end(), {"--policy", policy});
  }
  const auto result = run_program(arguments);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
}

// Every number of that name in the index, multiplied: as a later build might have measured it.
void scale_in_index(const std::filesystem::path& folder, const std::string& metric, double factor) {
  std::string changed;
  for (const std::string& line : test::lines_of(test::read_text(folder / "index.jsonl"))) {
    auto row = nlohmann::ordered_json::parse(line);
    row[metric] = row[metric].get<double>() * factor;
    changed += row.dump() + "\n";
  }
  std::ofstream(folder / "index.jsonl") << changed;
}

TEST_CASE("compare: a run repeated on other threads is no regression") {
  const test::TempDir folder;
  make_results(folder.path() / "a", {"full", "window8"});
  make_results(folder.path() / "b", {"full", "window8"}, "2");
  const std::string a = (folder.path() / "a").string();
  const std::string b = (folder.path() / "b").string();
  const auto result = run_program({"compare", a, b, "--json"});
  CHECK(result.exit_code == 0);
  const json found = json::parse(result.out);
  CHECK(found["regression"] == false);
  REQUIRE(found["runs"].size() == 2);
  for (const json& run : found["runs"]) {
    CHECK((run["verdict"] == "equal" || run["verdict"] == "within"));
    CHECK(run["metrics"][0]["metric"] == "ppl");
    CHECK(run["metrics"][0]["paired"] == true);
  }
  CHECK(contains(run_program({"compare", a + "/index.jsonl", b}).out, "2 runs"));
}

TEST_CASE("compare: higher perplexity and missing runs end with exit code 1") {
  const test::TempDir folder;
  const auto a = folder.path() / "a";
  const auto b = folder.path() / "b";
  make_results(a, {"full", "window8", "sink2+6"});
  make_results(b, {"full", "window8"});
  const auto missing = run_program({"compare", a.string(), b.string()});
  CHECK(contains(fault_of(missing, 1), "B is worse than A"));
  CHECK(contains(missing.out, "MISSING"));
  CHECK(run_program({"compare", a.string(), b.string(), "--allow-missing"}).exit_code == 0);
  scale_in_index(b, "ppl", 1.05);
  const auto worse = run_program({"compare", a.string(), b.string(), "--allow-missing"});
  CHECK(worse.exit_code == 1);
  CHECK(contains(worse.out, "2 WORSE"));
  CHECK(contains(worse.out, "+5.00 %"));
  // Better the other way round, and within a wider tolerance.
  CHECK(run_program({"compare", b.string(), a.string()}).exit_code == 0);
  const auto wide = folder.write("wide.json", R"({"metrics": {"ppl": {"relative": 0.06}}})");
  CHECK(run_program(
            {"compare", a.string(), b.string(), "--allow-missing", "--tolerances", wide.string()})
            .exit_code == 0);
}

TEST_CASE("compare: speed counts when asked for") {
  const test::TempDir folder;
  const auto a = folder.path() / "a";
  const auto b = folder.path() / "b";
  make_results(a, {"full"});
  std::filesystem::copy(a, b);
  scale_in_index(b, "tokens_per_s", 0.8);
  CHECK(run_program({"compare", a.string(), b.string()}).exit_code == 0);
  const auto slow = run_program({"compare", a.string(), b.string(), "--speed"});
  CHECK(slow.exit_code == 1);
  CHECK(contains(slow.out, "tokens_per_s"));
}

TEST_CASE("compare and report: bad requests end with exit code 2, damaged results with 3") {
  const test::TempDir folder;
  const std::string a = (folder.path() / "a").string();
  make_results(a, {"full"});
  CHECK(contains(fault_of(run_program({"compare", a}), 2), "two results"));
  CHECK(contains(fault_of(run_program({"compare", a, a, a}), 2), "two results"));
  CHECK(contains(fault_of(run_program({"compare", a, a + "/none"}), 2), "none"));
  CHECK(contains(fault_of(run_program({"compare", a, a, "--json", "--markdown"}), 2), "not both"));
  const auto file = folder.write("t.json", R"({"metrics": {"ppl": {"relativ": 1}}})");
  CHECK(contains(fault_of(run_program({"compare", a, a, "--tolerances", file.string()}), 2),
                 "relativ"));
  const auto empty = folder.write("empty/index.jsonl", "");
  CHECK(contains(fault_of(run_program({"compare", empty.string(), a}), 2), "no runs"));
  const auto damaged = folder.write("damaged/index.jsonl", "{\n{}\n");
  CHECK(contains(fault_of(run_program({"compare", a, damaged.string()}), 3), "line 1"));
  CHECK(contains(fault_of(run_program({"report", a}), 2), "--out"));
  CHECK(contains(fault_of(run_program({"report", "--format", "md"}), 2), "folder"));
}

TEST_CASE("report --format md: a table per group; of two results what changed") {
  const test::TempDir folder;
  const auto a = folder.path() / "a";
  const auto b = folder.path() / "b";
  make_results(a, {"full", "window8"});
  std::filesystem::copy(a, b);
  scale_in_index(b, "ppl", 1.5);
  const auto one = run_program({"report", a.string(), "--format", "md"});
  CHECK(one.exit_code == 0);
  CHECK(contains(one.out, "### ppl: llama on"));
  CHECK(contains(one.out, "| window8 |"));
  CHECK(!contains(one.out, "Since"));
  const auto two = run_program({"report", a.string(), b.string(), "--format", "md"});
  CHECK(two.exit_code == 0);
  CHECK(contains(two.out, "### Since"));
  CHECK(contains(two.out, "**WORSE**"));
}

}  // namespace
}  // namespace kvbench
