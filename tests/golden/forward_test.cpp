// SmolLM2's full-cache forward pass against transformers: losses, logits, greedy tokens.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "tests/golden/smollm2.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using Ids = std::vector<std::int32_t>;
using nlohmann::json;

const json& reference_case(std::size_t index) {
  static const json document = test::read_golden("dense_nll.json");
  return document["cases"][index];
}

std::vector<float> logits_of(Session& session) {
  std::vector<float> logits(static_cast<std::size_t>(test::smollm2().config().vocab_size));
  session.last_logits(logits);
  return logits;
}

class FullSession {
 public:
  FullSession()
      : policy_(make_policy("full")),
        session_(test::smollm2(), test::golden_backend(), *policy_.policy, {}) {}
  Session* operator->() { return &session_; }
  Session& operator*() { return session_; }

 private:
  ConfiguredPolicy policy_;
  Session session_;
};

void check_losses(const json& reference) {
  const auto ids = reference["ids"].get<Ids>();
  const auto expected = reference["nll"].get<std::vector<double>>();
  REQUIRE(expected.size() == ids.size() - 1);
  FullSession session;
  session->begin(static_cast<std::int64_t>(ids.size()));
  std::vector<double> nll(expected.size());
  session->feed(ids, std::span<const std::int32_t>(ids).subspan(1), nll);
  double sum = 0.0;
  for (std::size_t i = 0; i < nll.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(nll[i] - expected[i]) < 5e-4);
    sum += nll[i];
  }
  const double ppl = std::exp(sum / static_cast<double>(nll.size()));
  CHECK(std::abs(ppl / reference["ppl"].get<double>() - 1.0) < 1e-4);
}

// The ten largest logits in their order, at each position of the reference.
void check_logits(const json& reference) {
  const auto ids = reference["ids"].get<Ids>();
  FullSession session;
  session->begin(static_cast<std::int64_t>(ids.size()));
  int positions = 0;
  for (std::size_t fed = 0; fed < ids.size();) {
    // Positions are keys of an object: "0", "1", "63", ...
    std::size_t next = ids.size();
    for (const auto& [key, unused] : reference["top10_logits"].items()) {
      const auto position = static_cast<std::size_t>(std::stoul(key));
      if (position >= fed) next = std::min(next, position);
    }
    if (next == ids.size()) break;
    session->feed(std::span<const std::int32_t>(ids).subspan(fed, next + 1 - fed));
    fed = next + 1;
    const std::vector<float> logits = logits_of(*session);
    for (const json& pair : reference["top10_logits"][std::to_string(next)]) {
      CAPTURE(next);
      CAPTURE(pair[0].get<int>());
      CHECK(std::abs(logits[pair[0].get<std::size_t>()] - pair[1].get<double>()) < 5e-3);
    }
    ++positions;
  }
  CHECK(positions == 5);
}

// Exact until two logits come so close that a rounding error may choose between them.
void check_greedy(const json& reference) {
  const auto ids = reference["ids"].get<Ids>();
  const auto expected = reference["greedy64"].get<Ids>();
  const auto gaps = reference["greedy_top2_logit_gap"].get<std::vector<double>>();
  const auto prompt = reference["greedy_after"].get<std::size_t>();
  FullSession session;
  session->begin(static_cast<std::int64_t>(prompt + expected.size()));
  session->feed(std::span<const std::int32_t>(ids).first(prompt));
  std::size_t compared = 0;
  for (std::size_t i = 0; i < expected.size() && gaps[i] > 1e-2; ++i) {
    CAPTURE(i);
    const std::vector<float> logits = logits_of(*session);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    REQUIRE(best == expected[i]);
    session->feed({&expected[i], 1});
    ++compared;
  }
  CHECK(compared >= 30);
}

TEST_CASE("SmolLM2, Emma from the start: losses of 1023 tokens") {
  check_losses(reference_case(0));
}

TEST_CASE("SmolLM2, Emma from token 20000: losses of 1023 tokens") {
  check_losses(reference_case(1));
}

TEST_CASE("SmolLM2: the largest logits at several positions") {
  check_logits(reference_case(0));
  check_logits(reference_case(1));
}

TEST_CASE("SmolLM2: greedy continuation") {
  check_greedy(reference_case(0));
  check_greedy(reference_case(1));
}

}  // namespace
}  // namespace kvbench
