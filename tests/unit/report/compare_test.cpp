// Comparing results: which runs belong together, what counts as worse, and what a damaged or
// half-empty side does to the verdict.
#include "report/compare.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "config/config_hash.hpp"
#include "core/error.hpp"
#include "report/compare_text.hpp"
#include "report/paired_difference.hpp"
#include "report/record_store.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;
using test::contains;

struct Made {
  std::string policy = "full";
  double ppl = 20.0;
  std::string version = "1.0";
  std::uint64_t seed = 0;
  bool ok = true;
  int threads = 1;
  std::string details = "{}";
};

RunRecord record_of(const Made& made) {
  RunRecord record;
  record.task = "ppl";
  record.policy = made.policy;
  record.config_json = json{
      {"task", "ppl"},
      {"policy_name", made.policy},
      {"kvbench_version", made.version},
      {"seed", made.seed}}.dump();
  record.config_hash = config_hash_of_text(record.config_json);
  record.seed = made.seed;
  record.threads = made.threads;
  record.ok = made.ok;
  record.details_json = made.details;
  if (made.ok) {
    record.metrics = {sampled_metric("ppl", made.ppl, "", 100, 0.3),
                      count_metric("tokens_scored", 100, "tokens"),
                      real_metric("tokens_per_s", 50.0, "1/s")};
  } else {
    record.reason = "out of memory";
    record.metrics = {missing_metric("ppl", "", "out of memory")};
  }
  return record;
}

ResultSet results_of(const std::vector<Made>& runs) {
  const test::TempDir folder;
  RecordStore store(folder.path());
  for (const Made& made : runs) store.write(record_of(made));
  return read_results(folder.path());
}

Comparison compare(const std::vector<Made>& older, const std::vector<Made>& newer,
                   bool allow_missing = false) {
  return compare_results(results_of(older), results_of(newer), default_tolerances(false),
                         allow_missing);
}

const MetricComparison& ppl_of(const Comparison& comparison) {
  for (const MetricComparison& metric : comparison.runs.at(0).metrics) {
    if (metric.tolerance.metric == "ppl") return metric;
  }
  throw std::runtime_error("no ppl");
}

TEST_CASE("compare: runs of two versions on other threads are the same configuration") {
  const Comparison comparison = compare({{.version = "1.0"}}, {{.version = "2.0", .threads = 8}});
  REQUIRE(comparison.runs.size() == 1);
  CHECK(comparison.runs[0].verdict == Verdict::equal);
  CHECK(!comparison.regression);
}

TEST_CASE("compare: another seed is another run") {
  const Comparison comparison = compare({{.seed = 1}}, {{.seed = 2}});
  REQUIRE(comparison.runs.size() == 2);
  CHECK(comparison.runs[0].verdict == Verdict::missing);
  CHECK(comparison.runs[1].verdict == Verdict::only_new);
  CHECK(comparison.regression);
  CHECK(!compare({{.seed = 1}}, {{.seed = 2}}, true).regression);
}

TEST_CASE("compare: perplexity may drift by its tolerance, and only upwards is worse") {
  CHECK(compare({{.ppl = 20}}, {{.ppl = 20.19}}).runs[0].verdict == Verdict::within);
  CHECK(!compare({{.ppl = 20}}, {{.ppl = 20.19}}).regression);
  CHECK(compare({{.ppl = 20}}, {{.ppl = 20.21}}).runs[0].verdict == Verdict::worse);
  CHECK(compare({{.ppl = 20}}, {{.ppl = 20.21}}).regression);
  CHECK(compare({{.ppl = 20}}, {{.ppl = 15}}).runs[0].verdict == Verdict::improved);
  CHECK(!compare({{.ppl = 20}}, {{.ppl = 15}}).regression);
}

TEST_CASE("compare: directions lower and both, and a distance in error bars") {
  const ResultSet older = results_of({{.ppl = 20}});
  const ResultSet newer = results_of({{.ppl = 21}});
  const auto verdict = [&](const ResultSet& a, const ResultSet& b, const Tolerance& tolerance) {
    return compare_results(a, b, std::span(&tolerance, 1), false).runs[0].verdict;
  };
  CHECK(verdict(older, newer, {.metric = "ppl", .absolute = 0.5, .worse = Worse::lower}) ==
        Verdict::improved);
  CHECK(verdict(newer, older, {.metric = "ppl", .absolute = 0.5, .worse = Worse::lower}) ==
        Verdict::worse);
  CHECK(verdict(newer, older, {.metric = "ppl", .absolute = 0.5, .worse = Worse::both}) ==
        Verdict::worse);
  // The wider of absolute and relative counts.
  CHECK(verdict(older, newer, {.metric = "ppl", .absolute = 0.5, .relative = 0.1}) ==
        Verdict::within);
  // Both error bars are 0.3: the difference of 1 is 2.36 of their sum's.
  CHECK(verdict(older, newer, {.metric = "ppl", .sigmas = 2.3}) == Verdict::worse);
  CHECK(verdict(older, newer, {.metric = "ppl", .sigmas = 2.4}) == Verdict::within);
}

TEST_CASE("compare: errors on either side") {
  const Comparison broken = compare({{.ok = true}}, {{.ok = false}});
  CHECK(broken.runs[0].verdict == Verdict::failed);
  CHECK(broken.runs[0].note == "out of memory");
  CHECK(broken.regression);
  CHECK(compare({{.ok = true}}, {{.ok = false}}, true).regression);
  CHECK(compare({{.ok = false}}, {{.ok = true}}).runs[0].verdict == Verdict::improved);
  const Comparison both = compare({{.ok = false}}, {{.ok = false}});
  CHECK(both.runs[0].verdict == Verdict::both_failed);
  CHECK(!both.regression);
}

TEST_CASE("compare: no older runs is an error, no newer ones are all missing") {
  const ResultSet none;
  const auto tolerances = default_tolerances(false);
  CHECK(contains(test::error_text<ConfigError>(
                     [&] { compare_results(none, results_of({{}}), tolerances, false); }),
                 "nothing to compare"));
  const Comparison comparison = compare_results(results_of({{}}), none, tolerances, false);
  CHECK(comparison.regression);
  CHECK(comparison.count(Verdict::missing) == 1);
}

TEST_CASE("compare: a missing number that is allowed hides no worse one") {
  const test::TempDir folder;
  RunRecord record = record_of({.ppl = 30});
  record.metrics.erase(record.metrics.begin() + 1);  // tokens_scored
  RecordStore(folder.path()).write(record);
  const Comparison comparison = compare_results(
      results_of({{.ppl = 20}}), read_results(folder.path()), default_tolerances(false), true);
  CHECK(comparison.runs[0].verdict == Verdict::worse);
  CHECK(comparison.regression);
}

TEST_CASE("compare: index lines without records, with and without a comparison hash") {
  const auto line = [](const std::string& hash, const std::string& more, double ppl) {
    return fmt::format(
        R"({{"task":"ppl","policy":"full","status":"ok","reason":null,"ppl":{},"model":"m","config_hash":"{}"{},"schema_version":1}})"
        "\n",
        ppl, hash, more);
  };
  const test::TempDir folder;
  const auto a =
      folder.write("a.jsonl", line("1", R"(,"comparison_hash":"x")", 20) + line("9", "", 7));
  const auto b =
      folder.write("b.jsonl", line("2", R"(,"comparison_hash":"x")", 25) + line("9", "", 7));
  const Comparison comparison =
      compare_results(read_results(a), read_results(b), default_tolerances(false), false);
  REQUIRE(comparison.runs.size() == 2);
  CHECK(comparison.runs[0].verdict == Verdict::worse);
  CHECK(comparison.runs[1].verdict == Verdict::equal);
}

std::string documents(double first, double second) {
  return fmt::format(
      R"({{"documents":[{{"name":"a","tokens_scored":300,"nll_mean":{}}},{{"name":"b","tokens_scored":100,"nll_mean":{}}},{{"name":"c","tokens_scored":0,"nll_mean":null}}]}})",
      first, second);
}

// n = 2, weights 300 and 100, differences 0.1 and 0.3: mean 0.15, error sqrt(2 (15^2 + 15^2)) /
// 400.
TEST_CASE("compare: the error bar comes from the documents that both sides scored") {
  const Made older{.ppl = 20, .details = documents(3.0, 2.0)};
  const Made newer{.ppl = 23, .details = documents(3.1, 2.3)};
  const auto nll = paired_standard_error(Json{{"details", Json::parse(older.details)}},
                                         Json{{"details", Json::parse(newer.details)}}, "nll_mean");
  REQUIRE(nll.has_value());
  CHECK(*nll == doctest::Approx(0.075));
  const Comparison matched = compare({older}, {newer});
  const MetricComparison& ppl = ppl_of(matched);
  CHECK(ppl.paired);
  CHECK(*ppl.error == doctest::Approx(0.075 * 0.5 * (std::exp(2.75) + std::exp(2.9))));
  const Comparison unpaired = compare({{.ppl = 20}}, {{.ppl = 23}});
  const MetricComparison& apart = ppl_of(unpaired);
  CHECK(!apart.paired);
  CHECK(*apart.error == doctest::Approx(0.3 * std::sqrt(2.0)));
}

TEST_CASE("compare: text, Markdown and JSON say the same; Markdown holds no markup of records") {
  Comparison comparison = compare({{.policy = "a|<img src=x>*b*"}, {.policy = "window8"}},
                                  {{.policy = "a|<img src=x>*b*", .ppl = 30}});
  const std::string table = comparison_table(comparison);
  CHECK(contains(table, "WORSE"));
  CHECK(contains(table, "2 runs: 1 WORSE, 1 MISSING"));
  CHECK(contains(table, "+50.00 %"));
  const std::string markdown = comparison_markdown(comparison);
  CHECK(contains(markdown, "**WORSE**"));
  CHECK(contains(markdown, R"(| a\|&lt;img src=x&gt;\*b\* |)"));
  CHECK(!contains(markdown, "<img"));
  const Json document = comparison_to_json(comparison);
  CHECK(document["regression"] == true);
  CHECK(document["runs"][0]["verdict"] == "worse");
  CHECK(document["runs"][0]["metrics"][0]["difference"] == 10.0);
  CHECK(document["runs"][1]["verdict"] == "missing");
}

}  // namespace
}  // namespace kvbench
