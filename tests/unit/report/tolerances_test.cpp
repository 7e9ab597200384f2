// Tolerances from a file: they change the defaults one by one, and a slip of the pen is an error,
// because a gate that checks nothing looks like one that passes.
#include "report/tolerances.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "core/error.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

using test::contains;

std::vector<Tolerance> read(const std::string& text) {
  const test::TempDir folder;
  std::vector<Tolerance> tolerances = default_tolerances(false);
  read_tolerances(folder.write("t.json", text), tolerances);
  return tolerances;
}

const Tolerance* find(const std::vector<Tolerance>& tolerances, const std::string& metric) {
  const auto found = std::find_if(tolerances.begin(), tolerances.end(),
                                  [&](const Tolerance& one) { return one.metric == metric; });
  return found == tolerances.end() ? nullptr : &*found;
}

std::string error_of(const std::string& text) {
  return test::error_text<ConfigError>([&] { read(text); });
}

TEST_CASE("tolerances: a file replaces, adds and takes out") {
  const auto tolerances = read(
      R"({"metrics": {"ppl": {"absolute": 0.25}, "hit_rate": null,
          "word_ppl": {"relative": 0.02, "worse": "both", "sigmas": 3}}})");
  REQUIRE(find(tolerances, "ppl") != nullptr);
  CHECK(find(tolerances, "ppl")->allowed(1000.0) == 0.25);
  CHECK(find(tolerances, "ppl")->worse == Worse::higher);
  CHECK(find(tolerances, "hit_rate") == nullptr);
  REQUIRE(find(tolerances, "word_ppl") != nullptr);
  CHECK(find(tolerances, "word_ppl")->worse == Worse::both);
  CHECK(find(tolerances, "word_ppl")->sigmas == 3.0);
  CHECK(find(tolerances, "word_ppl")->allowed(-50.0) == doctest::Approx(1.0));
  CHECK(find(tolerances, "accuracy")->worse == Worse::lower);
}

TEST_CASE("tolerances: speed is compared only when asked for") {
  CHECK(find(default_tolerances(false), "tokens_per_s") == nullptr);
  CHECK(find(default_tolerances(true), "tokens_per_s")->worse == Worse::lower);
}

TEST_CASE("tolerances: what is wrong names the key") {
  CHECK(contains(error_of(R"({"metrics": {"ppl": {"relativ": 0.1}}})"), "relative"));
  CHECK(contains(error_of(R"({"metrics": {"ppl": {"relative": -0.1}}})"), "metrics.ppl.relative"));
  CHECK(contains(error_of(R"({"metrics": {"ppl": {}}})"), "neither absolute nor relative"));
  CHECK(contains(error_of(R"({"metrics": {"new": {"absolute": 1}}})"), "which direction"));
  CHECK(contains(error_of(R"({"metrics": {"ppl": {"absolute": 1, "worse": "up"}}})"), "\"up\""));
  CHECK(contains(error_of(R"({"metrics": {"ppl": 0.1}})"), "metrics.ppl"));
  CHECK(contains(error_of(R"({"metric": {}})"), "metrics"));
  CHECK(contains(error_of("[]"), "object"));
  CHECK(contains(error_of("{"), "t.json"));
}

}  // namespace
}  // namespace kvbench
