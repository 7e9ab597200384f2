// `kvbench qa` from outside: rows, records, and faults told in one line.
#include <doctest/doctest.h>

#include "tests/program/program.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/tiny_qa.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::contains;
using test::fault_of;
using test::ProgramResult;
using test::run_program;

ProgramResult qa(const std::vector<std::string>& more) {
  static const test::TempDir model;
  static const bool written = (test::write_tiny_qa_model(model), true);
  REQUIRE(written);
  std::vector<std::string> arguments = {"qa",        "--model", model.path().string(),
                                        "--threads", "1",       "--quiet"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments);
}

TEST_CASE("qa --json and --out: a row for each policy, samples in the record") {
  const test::TempDir folder;
  const std::vector<std::string> arguments = {
      "--data",   test::qa_samples(), "--policy", "full",         "--policy",
      "sink4+28", "--samples",        "1",        "--max-length", "120",
      "--json",   "--question",       "hidden",   "--out",        folder.path().string()};
  const auto result = qa(arguments);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  const json rows = json::parse(result.out);
  REQUIRE(rows.size() == 2);
  for (const json& row : rows) {
    CHECK(row["status"] == "ok");
    CHECK(row["samples"] == 7);
    CHECK(row["question"] == "hidden");
    CHECK(row["score"].get<double>() >= 0.0);
    CHECK(row["score_trec"].is_number());
    CHECK(row["score_trec_stderr"].is_null());
    const auto path = folder.path() / (row["config_hash"].get<std::string>() + ".json");
    const json record = json::parse(test::read_text(path));
    REQUIRE(record["details"]["samples"].size() == 7);
    for (const json& sample : record["details"]["samples"]) {
      CHECK(sample["output"].is_string());
      CHECK(sample["truncated"] == (sample["whole_tokens"].get<int>() > 120));
    }
  }
  CHECK(rows[0]["score_minus_full"] == 0.0);
  CHECK(rows[1]["kept_mean"].get<double>() == 32.0);
}

TEST_CASE("qa: a table with one line for each policy") {
  const auto result = qa({"--data", test::qa_samples("stories.jsonl"), "--dataset", "narrativeqa",
                          "--policy", "full", "--policy", "window32"});
  REQUIRE(result.exit_code == 0);
  const auto lines = test::lines_of(result.out);
  REQUIRE(lines.size() >= 3);
  CHECK(contains(lines[0], "score"));
  CHECK(lines[2].rfind("window32", 0) == 0);
}

TEST_CASE("qa: faults name file, line and key, with their exit codes") {
  const test::TempDir folder;
  const auto bad = folder.write("bad.jsonl", "{\"input\": \"\", \"context\": 3}\n").string();
  const std::string message = fault_of(qa({"--data", bad, "--policy", "full"}), 3);
  CHECK_MESSAGE(contains(message, "bad.jsonl, line 1"), message);
  CHECK(
      contains(fault_of(qa({"--data", "/no/such/file", "--policy", "full"}), 2), "/no/such/file"));
  CHECK(contains(fault_of(qa({"--data", test::qa_samples()}), 2), "policy"));
  const auto prompts = folder.write("p.json", "{\"trec\": {\"prompts\": \"\"}}").string();
  CHECK(contains(
      fault_of(qa({"--data", test::qa_samples(), "--policy", "full", "--prompts", prompts}), 2),
      "did you mean prompt"));
}

}  // namespace
}  // namespace kvbench
