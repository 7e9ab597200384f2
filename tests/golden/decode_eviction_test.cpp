// SmolLM2 token by token under h2o and tova: what is kept while entries are evicted at every step,
// and the losses on what is left.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "tests/golden/kept_sets.hpp"
#include "tests/golden/smollm2.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using nlohmann::json;

const json& reference() {
  static const json document = test::read_golden("decode_eviction.json");
  return document;
}

void check_kept(const Session& session, const json& expected) {
  CAPTURE(expected["step"].get<int>());
  for (std::int64_t layer = 0; layer < 30; ++layer) {
    CAPTURE(layer);
    const std::size_t n_sets = expected["hashes"][0].size();  // 1: one for all heads
    for (std::int64_t kv_head = 0; kv_head < 3; ++kv_head) {
      const auto set = static_cast<std::size_t>(kv_head) % n_sets;
      test::check_kept_set(expected, reference()["layers"], layer, set,
                           session.kept_positions(layer, kv_head));
    }
  }
}

void check_case(std::size_t index) {
  const json& expected = reference()["cases"][index];
  const auto policy = expected["policy"].get<std::string>();
  CAPTURE(policy);
  const ConfiguredPolicy configured = make_policy(policy);
  Session session(test::smollm2(), test::golden_backend(), *configured.policy, {});
  const auto ids = expected["ids"].get<std::vector<std::int32_t>>();
  const std::span<const std::int32_t> text(ids);
  std::vector<double> nll(ids.size() - 1);
  session.begin(static_cast<std::int64_t>(ids.size()));
  std::size_t fed = 0;
  for (const json& checked : expected["steps"]) {
    const auto n = checked["step"].get<std::size_t>() + 1 - fed;
    const std::size_t scored = std::min(n, nll.size() - fed);
    session.feed(text.subspan(fed, n), text.subspan(fed + 1, scored),
                 std::span(nll).subspan(fed, scored));
    fed += n;
    check_kept(session, checked);
  }
  REQUIRE(fed == ids.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < nll.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(nll[i] - expected["nll"][i].get<double>()) < 5e-4);
    sum += nll[i];
  }
  const double ppl = std::exp(sum / static_cast<double>(nll.size()));
  CHECK(std::abs(ppl / expected["ppl"].get<double>() - 1.0) < 1e-4);
}

TEST_CASE("h2o, 300 tokens") {
  check_case(0);
}

TEST_CASE("tova, 300 tokens") {
  check_case(1);
}

TEST_CASE("h2o, another text") {
  check_case(2);
}

TEST_CASE("tova, another text") {
  check_case(3);
}

}  // namespace
}  // namespace kvbench
