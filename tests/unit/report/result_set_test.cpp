// Reading results: what counts as done, what lies beside the index, and which rows belong together
// in a report.
#include "report/result_set.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "config/config_hash.hpp"
#include "core/error.hpp"
#include "report/record_store.hpp"
#include "report/report_groups.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::contains;

RunRecord record_of(const std::string& policy, const json& options, const json& more = {}) {
  RunRecord record;
  record.task = "ppl";
  record.policy = policy;
  record.policy_json = options.dump();
  json config = {{"task", "ppl"}, {"policy", policy}, {"policy_options", options}, {"chunk", 512}};
  if (more.is_object()) config.update(more);
  record.config_json = config.dump();
  record.config_hash = config_hash_of_text(record.config_json);
  record.model_path = "/models/tiny/";
  record.model_sha256 = "aa";
  record.data_name = "emma";
  record.metrics = {sampled_metric("ppl", 4.5, "", 10, 0.25), real_metric("nll_mean", 1.5, "nat"),
                    missing_metric("word_ppl", "", "no text")};
  return record;
}

std::span<const ReportColumn> no_columns(const std::string&) {
  return {};
}

TEST_CASE("results: metrics, error bars and settings of a row") {
  const test::TempDir folder;
  RecordStore(folder.path())
      .write(record_of("window8", {{"capacity", "8"}},
                       {{"kv", {{"kind", "kivi"}, {"bits", 2}, {"schedule", "x"}}}}));
  const ResultSet results = read_results(folder.path());
  REQUIRE(results.runs.size() == 1);
  const ResultRun& run = results.runs[0];
  CHECK(run.metric("ppl") == 4.5);
  CHECK(run.error_bar("ppl") == 0.25);
  CHECK(!run.metric("word_ppl").has_value());
  CHECK(run.metric_names() == std::vector<std::string>{"ppl", "nll_mean", "word_ppl"});
  CHECK(run.record != nullptr);
  const auto settings = run.settings();
  const auto has = [&](const std::string& key, const std::string& value) {
    return std::find(settings.begin(), settings.end(), std::pair(key, value)) != settings.end();
  };
  CHECK(has("chunk", "512"));
  CHECK(has("kv", "kivi:bits=2"));
  CHECK(!has("ppl", "4.5"));
}

TEST_CASE("results: reading changes nothing; a line cut short is a warning") {
  const test::TempDir folder;
  RecordStore(folder.path()).write(record_of("full", json::object()));
  const auto index = folder.path() / "index.jsonl";
  { std::ofstream(index, std::ios::app) << R"({"config_hash":"c","pp)"; }
  const auto size = std::filesystem::file_size(index);
  const ResultSet results = read_results(folder.path());
  CHECK(results.runs.size() == 1);
  REQUIRE(results.warnings.size() == 1);
  CHECK(contains(results.warnings[0], "cut short"));
  CHECK(std::filesystem::file_size(index) == size);
  CHECK(read_results(index).runs.size() == 1);
}

TEST_CASE("results: no such folder, an empty one, a record that is not what its name says") {
  const test::TempDir folder;
  CHECK(contains(test::error_text<ConfigError>([&] { read_results(folder.path() / "none"); }),
                 "none"));
  CHECK(
      contains(test::error_text<ConfigError>([&] { read_results(folder.path()); }), "index.jsonl"));
  const RunRecord record = record_of("full", json::object());
  RecordStore(folder.path()).write(record);
  folder.write(record.config_hash + ".json", R"({"config":{"chunk":1}})");
  CHECK(contains(test::error_text<DataError>([&] { read_results(folder.path()); }),
                 record.config_hash));
  folder.write(record.config_hash + ".json", R"([1])");
  CHECK(contains(test::error_text<DataError>([&] { read_results(folder.path()); }),
                 "no JSON object"));
}

TEST_CASE("results: of one configuration in two folders the last one counts") {
  const test::TempDir folder;
  RunRecord record = record_of("full", json::object());
  RecordStore(folder.path() / "a").write(record);
  record.metrics = {real_metric("ppl", 9.0, "")};
  RecordStore(folder.path() / "b").write(record);
  const std::vector<std::filesystem::path> both{folder.path() / "a", folder.path() / "b"};
  const ResultSet results = read_results(both);
  REQUIRE(results.runs.size() == 1);
  CHECK(results.runs[0].metric("ppl") == 9.0);
  CHECK(results.warnings.size() == 1);
}

TEST_CASE("groups: settings part runs, policies and seeds do not; budgets and series") {
  const test::TempDir folder;
  RecordStore store(folder.path());
  store.write(record_of("full", json::object()));
  store.write(record_of("snapkv:capacity=64", {{"capacity", "64"}, {"kernel", "7"}}));
  store.write(record_of("snapkv:capacity=64,kernel=5", {{"capacity", "64"}, {"kernel", "5"}}));
  store.write(record_of("h2o:heavy=8,recent=24", {{"heavy", "8"}, {"recent", "24"}}));
  store.write(record_of("sink4+60", {{"sinks", "4"}, {"recent", "60"}}, {{"seed", 1}}));
  store.write(record_of("full", json::object(), {{"chunk", 64}}));
  const ResultSet results = read_results(folder.path());
  const auto groups = group_runs(results, no_columns);
  REQUIRE(groups.size() == 2);
  CHECK(groups[1].runs.size() == 1);
  CHECK(groups[0].model == "tiny");
  CHECK(groups[0].columns.size() == 4);
  const auto& runs = groups[0].runs;
  REQUIRE(runs.size() == 5);
  CHECK(!runs[0].budget.has_value());
  CHECK(runs[1].budget == 64.0);
  CHECK(runs[1].family == "snapkv");
  CHECK(runs[1].series == "snapkv kernel=7");
  CHECK(runs[2].series == "snapkv kernel=5");
  CHECK(runs[3].budget == 32.0);
  CHECK(runs[3].series == "h2o");
  CHECK(runs[4].budget == 64.0);
}

}  // namespace
}  // namespace kvbench
