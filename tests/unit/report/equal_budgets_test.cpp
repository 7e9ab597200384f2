// Rows that claim one budget and held different numbers of entries are found, others are not.
#include "report/equal_budgets.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;
using test::contains;

// A row of `ppl` on a text; no capacity where it is 0, no kept_mean where it is negative.
ResultRun run_of(const std::string& policy, int capacity, double kept, int tokens = 100) {
  Json row = {{"task", "ppl"}, {"policy", policy}, {"status", "ok"}, {"reason", nullptr}};
  if (capacity > 0) row["capacity"] = capacity;
  if (kept >= 0) row["kept_mean"] = kept;
  row.update({{"model", "tiny"}, {"data", "emma"}, {"schema_version", 1}, {"tokens", tokens}});
  ResultRun run;
  run.task = "ppl";
  run.policy = policy;
  run.ok = true;
  run.row = std::make_shared<Json>(std::move(row));
  return run;
}

std::string fault_of(std::vector<ResultRun> runs) {
  ResultSet results;
  results.runs = std::move(runs);
  return unequal_budgets(results).value_or("");
}

TEST_CASE("equal budgets: 1 % apart passes, more does not, and both rows are named") {
  CHECK(fault_of({run_of("window100", 100, 100), run_of("tova:capacity=100", 100, 99.0)}).empty());
  const std::string fault =
      fault_of({run_of("full", 0, 5000), run_of("window100", 100, 100),
                run_of("random:capacity=100", 100, 100.5), run_of("sink4+96", 100, 104)});
  CHECK(contains(fault, "'window100' and 'sink4+96'"));
  CHECK(contains(fault, "100 entries, but held 100.0 and 104.0"));
}

TEST_CASE("equal budgets: other budgets, other texts and unmeasured rows are not held together") {
  CHECK(fault_of({run_of("window100", 100, 100), run_of("window200", 200, 200)}).empty());
  CHECK(fault_of({run_of("window100", 100, 100), run_of("sink4+96", 100, 50, 50)}).empty());
  CHECK(fault_of({run_of("window100", 100, 100), run_of("sink4+96", 100, -1)}).empty());
  CHECK(fault_of({run_of("full", 0, 100), run_of("full", 0, 200)}).empty());
}

TEST_CASE("equal budgets: shares of a prompt, and budgets in two parts, are budgets") {
  CHECK(contains(
      fault_of({run_of("snapkv:keep=0.5,window=8", 0, 50), run_of("tova:keep=0.5", 0, 58)}),
      "a share of 0.5"));
  CHECK(fault_of({run_of("snapkv:keep=0.5,window=8", 0, 50), run_of("tova:keep=0.6", 0, 60)})
            .empty());
  CHECK(contains(fault_of({run_of("window100", 0, 100), run_of("h2o:heavy=50,recent=50", 0, 120)}),
                 "100 entries"));
}

TEST_CASE("equal budgets: one run measured twice, and the error") {
  CHECK(!unequal_budgets(run_of("window100", 100, 100), run_of("window100", 100, 100.9)));
  const auto fault = unequal_budgets(run_of("window100", 100, 100), run_of("window100", 100, 102));
  REQUIRE(fault.has_value());
  CHECK(contains(*fault, "100.0 entries per layer and KV head in A, and 102.0 in B"));
  ResultSet results;
  results.runs = {run_of("window100", 100, 100), run_of("sink4+96", 100, 104)};
  CHECK_THROWS_AS(require_equal_budgets(results), ConfigError);
}

}  // namespace
}  // namespace kvbench
