// Where SmolLM2's attention goes on Emma, and where it goes when the first four tokens are line
// breaks: per layer and query head, against transformers' eager attention
// (tests/golden/attention_shares.json).
#include "task/attention.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/golden/smollm2.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using nlohmann::json;

// `found`: [layer][query head] objects; `expected`: of each share, the same as numbers.
void compare(const json& found, const json& expected) {
  REQUIRE(found.size() == 30);
  for (const char* share : {"first1", "first4", "recent", "rest", "entropy"}) {
    CAPTURE(share);
    double largest = 0.0;
    for (std::size_t layer = 0; layer < found.size(); ++layer) {
      REQUIRE(found[layer].size() == 9);
      for (std::size_t head = 0; head < 9; ++head) {
        largest = std::fmax(largest, std::abs(found[layer][head][share].get<double>() -
                                              expected[share][layer][head].get<double>()));
      }
    }
    CHECK(largest < 1e-4);
  }
}

TEST_CASE("attention on sinks, the newest and the rest, and with the sinks replaced") {
  const json golden = test::read_golden("attention_shares.json");
  AttentionRequest request;
  request.model = test::smollm2_directory().string();
  request.backend = "cpu";
  request.tokens.ids = {golden["ids"].get<std::vector<std::int32_t>>()};
  request.prompt = std::ssize(request.tokens.ids.front());
  request.profile.after = golden["after"].get<std::int64_t>();
  request.profile.first = golden["first"].get<std::int64_t>();
  request.profile.recent = golden["recent"].get<std::int64_t>();
  request.replace_first = request.profile.first;
  request.replace_id = golden["replace_id"].get<std::int64_t>();
  TaskContext context;
  context.quiet = true;
  const auto records = run_attention(request, context);
  REQUIRE_MESSAGE(records[0].ok, records[0].reason);
  const json details = json::parse(records[0].details_json);
  compare(details["heads"], golden["plain"]);
  compare(details["replaced"]["heads"], golden["replaced"]);
  // The sink stays where it was, whatever stands there; it spreads over equal tokens.
  const auto value = [&](const char* name) { return *find_metric(records[0], name)->value; };
  CHECK(value("first4_mass") > 0.3);
  CHECK(value("first4_mass_change") > 0.0);
  CHECK(value("first1_mass_change") < -0.1);
}

}  // namespace
}  // namespace kvbench
