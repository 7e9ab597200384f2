// Hit rates of SnapKV on Emma, counted by an implementation of the definition outside this project
// (tests/golden/hit_rate.json); policies that must come first and last; what questions share.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "task/hitrate.hpp"
#include "tests/golden/smollm2.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using nlohmann::json;

const json& golden() {
  static const json document = test::read_golden("hit_rate.json");
  return document;
}

// Contexts share a model.
TaskContext& context() {
  static TaskContext shared;
  shared.quiet = true;
  return shared;
}

HitRateRequest request_for(const std::vector<std::string>& policies) {
  HitRateRequest request;
  request.model = test::smollm2_directory().string();
  request.backend = "cpu";
  request.policies = policies;
  request.prompt = golden()["prompt"].get<std::int64_t>();
  request.steps = golden()["steps"].get<std::int64_t>();
  request.tail = golden()["tail"].get<std::int64_t>();
  request.counting.thetas = golden()["theta"].get<std::vector<double>>();
  return request;
}

double value(const RunRecord& record, const std::string& name) {
  const Metric* metric = find_metric(record, name);
  REQUIRE_MESSAGE(metric != nullptr, name);
  return metric->value.value();
}

// Of two matrices of [layer][query head].
double largest_gap(const json& found, const json& expected) {
  REQUIRE(found.size() == expected.size());
  double largest = 0.0;
  for (std::size_t layer = 0; layer < found.size(); ++layer) {
    REQUIRE(found[layer].size() == expected[layer].size());
    for (std::size_t head = 0; head < found[layer].size(); ++head) {
      largest = std::fmax(largest, std::abs(found[layer][head].get<double>() -
                                            expected[layer][head].get<double>()));
    }
  }
  return largest;
}

TEST_CASE("SnapKV's hit rates are those of the definition, per layer and query head") {
  for (const json& expected : golden()["cases"]) {
    HitRateRequest request = request_for({golden()["policy"].get<std::string>()});
    request.tokens.ids = {expected["ids"].get<std::vector<std::int32_t>>()};
    const auto records = run_hitrate(request, context());
    REQUIRE(records.size() == 1);
    REQUIRE_MESSAGE(records[0].ok, records[0].reason);
    const json details = json::parse(records[0].details_json);
    for (std::size_t theta = 0; theta < 2; ++theta) {
      CAPTURE(theta);
      const json& found = details["heads"][theta];
      for (const char* counts :
           {"hits", "large", "hits_after_sinks", "large_after_sinks", "empty_steps"}) {
        CAPTURE(counts);
        CHECK(largest_gap(found[counts], expected[counts][theta]) <= 2.0);
      }
      const json& overall = expected["overall"][theta];
      const std::string suffix = theta == 0 ? "" : "_theta_0.01";
      const auto gap = [&](const std::string& name, const char* key) {
        return std::abs(value(records[0], name + suffix) - overall[key].get<double>());
      };
      CHECK(gap("hit_rate", "pooled") < 2e-3);
      CHECK(gap("hit_rate_head_mean", "head_mean") < 2e-3);
      CHECK(gap("hit_rate_after_sinks", "after_sinks") < 2e-3);
      CHECK(gap("empty_steps", "empty_steps") <= 20.0);
      CHECK(gap("empty_heads", "empty_heads") <= 1.0);
    }
    CHECK(largest_gap(details["mass_recall"], expected["mass_recall"]) < 1e-4);
    CHECK(largest_gap(details["prompt_mass_recall"], expected["prompt_mass_recall"]) < 1e-4);
    CHECK(std::abs(value(records[0], "mass_recall") - expected["mass_recall_mean"].get<double>()) <
          1e-4);
  }
}

TEST_CASE("the oracle holds most of what is attended to, a random choice least") {
  HitRateRequest request =
      request_for({"random:capacity=160,timing=prefill", "snapkv:capacity=160,window=32",
                   "tova:capacity=160,timing=prefill", "oracle:capacity=160", "full"});
  request.tokens.ids = {golden()["cases"][0]["ids"].get<std::vector<std::int32_t>>()};
  const auto records = run_hitrate(request, context());
  REQUIRE(records.size() == 5);
  const auto of = [&](std::size_t i) { return value(records[i], "hit_rate"); };
  const auto recall = [&](std::size_t i) { return value(records[i], "mass_recall"); };
  for (const std::size_t i : {1, 2}) {
    CHECK(of(0) + 0.3 < of(i));
    CHECK(of(i) < of(3));
    CHECK(recall(i) < recall(3));
  }
  CHECK(of(3) > 0.98);
  CHECK(of(4) == 1.0);
  CHECK(recall(4) == 1.0);
  CHECK(value(records[4], "nll_increase") == 0.0);
  CHECK(value(records[0], "nll_increase") > 0.5);
}

TEST_CASE("questions after one prompt: what their kept sets have in common") {
  const test::TempDir folder;
  std::string text;
  for (int i = 0; i < 40; ++i) {
    text += "The lighthouse keeper of " + std::to_string(100 + i * 37 % 61) + " wrote a letter. ";
  }
  HitRateRequest request = request_for({"snapkv:capacity=120,window=8", "sink4+100"});
  request.tokens.data = folder.write("text.txt", text).string();
  request.prompt = 400;
  request.steps = 4;
  request.tail = 0;
  request.greedy = true;
  request.questions = {"Who wrote a letter?", "Who wrote a letter?",
                       "\nAdd the numbers 12 and 30:"};
  const auto records = run_hitrate(request, context());
  REQUIRE_MESSAGE(records[0].ok, records[0].reason);
  const json overlap = json::parse(records[0].details_json)["question_overlap"];
  CHECK(overlap[0][1].get<double>() == 1.0);
  CHECK(overlap[1][1].get<double>() == 1.0);
  const double other = overlap[0][2].get<double>();
  CHECK(other > 0.2);
  CHECK(other < 0.95);
  CHECK(overlap[2][0].get<double>() == other);
  CHECK(value(records[0], "question_overlap") == doctest::Approx((1.0 + 2.0 * other) / 3.0));
  CHECK(value(records[0], "question_overlap_least") == other);
  const json segments = json::parse(records[0].details_json)["segments"];
  CHECK(segments.size() == 3);
  CHECK(segments[0]["inputs"].size() == 4);
  CHECK(segments[0]["inputs"] == segments[1]["inputs"]);
  CHECK(segments[2]["prompt_tokens"].get<int>() > 400);
}

}  // namespace
}  // namespace kvbench
