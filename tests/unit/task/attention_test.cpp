// The attention task against sums over a Llama written outside the library.
#include "task/attention.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/random_model.hpp"
#include "tests/support/reference_llama.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

constexpr test::RandomModelShape kShape{.n_kv_heads = 2, .group = 2, .head_dim = 8, .hidden = 32};
constexpr std::size_t kPrompt = 40;
constexpr std::size_t kHeads = 4;
constexpr std::size_t kAfter = 3;
constexpr std::size_t kRecent = 10;

const std::string& model_directory() {
  static const test::TempDir directory;
  static const std::string path = [] {
    test::write_random_llama(directory, kShape, 21);
    return directory.path().string();
  }();
  return path;
}

Ids text() {
  Ids ids;
  Rng rng(6);
  for (std::size_t i = 0; i < kPrompt + 2; ++i) {
    ids.push_back(static_cast<std::int32_t>(rng.below(32)));
  }
  return ids;
}

AttentionRequest some_request() {
  AttentionRequest request;
  request.model = model_directory();
  request.backend = "cpu";
  request.tokens.ids = {text()};
  request.offset = 2;
  request.prompt = kPrompt;
  request.profile.after = kAfter;
  request.profile.recent = kRecent;
  request.profile.map = 12;
  return request;
}

RunRecord run(const AttentionRequest& request) {
  TaskContext context;
  context.quiet = true;
  std::vector<RunRecord> records = run_attention(request, context);
  REQUIRE(records.size() == 1);
  REQUIRE_MESSAGE(records[0].ok, records[0].reason);
  return records[0];
}

double value(const RunRecord& record, const std::string& name) {
  const Metric* metric = find_metric(record, name);
  REQUIRE_MESSAGE(metric != nullptr, name);
  return metric->value.value();
}

struct Sums {
  double first1 = 0.0, first4 = 0.0, recent = 0.0, rest = 0.0, entropy = 0.0;
};

// Means over the queries behind kAfter; weights divided by their sum.
Sums dense(const test::ReferenceLlama& reference, std::size_t layer, std::size_t head) {
  Sums sums;
  for (std::size_t q = kAfter + 1; q < kPrompt; ++q) {
    const auto& row = reference.weights[layer][head][q];
    double total = 0.0;
    for (const double weight : row) total += weight;
    for (std::size_t p = 0; p <= q; ++p) {
      const double share = row[p] / total / static_cast<double>(kPrompt - kAfter - 1);
      if (p == 0) sums.first1 += share;
      if (p < 4) {
        sums.first4 += share;
      } else if (q - p < kRecent) {
        sums.recent += share;
      } else {
        sums.rest += share;
      }
      sums.entropy -= share * std::log(row[p] / total);
    }
  }
  return sums;
}

void check_profile(const json& found, const Ids& ids, bool off_by_one) {
  test::ReferenceLlama reference(model_directory(), off_by_one);
  reference.run(ids);
  for (std::size_t layer = 0; layer < kShape.n_layers; ++layer) {
    double first4 = 0.0;
    for (std::size_t head = 0; head < kHeads; ++head) {
      const Sums expected = dense(reference, layer, head);
      const json& shares = found["heads"][layer][head];
      const auto check = [&](const char* key, double number) {
        CAPTURE(key);
        CHECK(std::abs(shares[key].get<double>() - number) < 1e-5);
      };
      check("first1", expected.first1);
      check("first4", expected.first4);
      check("recent", expected.recent);
      check("rest", expected.rest);
      check("entropy", expected.entropy);
      first4 += expected.first4 / kHeads;
    }
    CHECK(std::abs(found["layers"][layer]["first4"].get<double>() - first4) < 1e-5);
    const json& map = found["maps"][layer];
    REQUIRE(map.size() == 12);
    for (std::size_t q = 0; q < 12; ++q) {
      REQUIRE(map[q].size() == q + 1);
      for (std::size_t p = 0; p <= q; ++p) {
        double mean = 0.0;
        for (std::size_t head = 0; head < kHeads; ++head) {
          const auto& row = reference.weights[layer][head][q];
          double total = 0.0;
          for (const double weight : row) total += weight;
          mean += row[p] / total / kHeads;
        }
        CHECK(std::abs(map[q][p].get<double>() - mean) < 2e-5);
      }
    }
  }
}

Ids used() {
  const Ids all = text();
  return {all.begin() + 2, all.end()};
}

TEST_CASE("attention shares, entropies and maps, against loops over dense attention") {
  const RunRecord record = run(some_request());
  const json details = json::parse(record.details_json);
  check_profile(details, used(), false);
  CHECK(!details.contains("replaced"));
  CHECK(value(record, "first4_mass") + value(record, "recent_mass") + value(record, "rest_mass") ==
        doctest::Approx(1.0));
  CHECK(value(record, "queries") == static_cast<double>(kPrompt - kAfter - 1));
  CHECK(find_metric(record, "first4_mass")->standard_error.value() > 0.0);
}

TEST_CASE("attention shares do not depend on the size of a forward") {
  AttentionRequest request = some_request();
  const RunRecord whole = run(request);
  request.chunk = 7;
  const RunRecord pieces = run(request);
  for (const Metric& metric : whole.metrics) {
    CHECK(value(pieces, metric.name) == doctest::Approx(*metric.value).epsilon(1e-5));
  }
}

TEST_CASE("first tokens replaced: a second profile, and the change") {
  AttentionRequest request = some_request();
  request.replace_first = 4;
  request.replace_id = 19;
  const RunRecord record = run(request);
  const json details = json::parse(record.details_json);
  check_profile(details, used(), false);
  Ids replaced = used();
  for (std::size_t i = 0; i < 4; ++i) replaced[i] = 19;
  check_profile(details["replaced"], replaced, false);
  CHECK(value(record, "first4_mass_change") ==
        doctest::Approx(value(record, "first4_mass_replaced") - value(record, "first4_mass")));
  CHECK(std::abs(value(record, "first4_mass_change")) > 1e-6);
}

TEST_CASE("shares under a softmax off by one are of what was paid") {
  AttentionRequest request = some_request();
  request.softmax_off_by_one = true;
  check_profile(json::parse(run(request).details_json), used(), true);
}

TEST_CASE("an attention run that cannot be right is refused") {
  const auto fault = [](auto change) {
    AttentionRequest request = some_request();
    change(request);
    return test::error_text<Error>([&] { run(request); });
  };
  using test::contains;
  CHECK(contains(fault([](auto& r) { r.prompt = 1; }), "--prompt 1"));
  CHECK(contains(fault([](auto& r) { r.offset = 3; }), "42 tokens, but 40 from token 3"));
  CHECK(contains(fault([](auto& r) { r.profile.after = kPrompt - 1; }), "--after 39"));
  CHECK(contains(fault([](auto& r) { r.replace_first = 4; }), "--replace-id"));
  CHECK(contains(fault([](auto& r) { r.kivi = KiviOptions{}; }), "plain keys"));
}

}  // namespace
}  // namespace kvbench
