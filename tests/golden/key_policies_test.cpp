// Policies that rate entries by their keys and values, and by the prompt's query statistics:
// what published code keeps on the real model, and its scores.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "tests/golden/smollm2.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;
using Scores = std::vector<double>;

const json& reference() {
  static const json document = test::read_golden("key_policies.json");
  return document;
}

std::unique_ptr<Scorer> make_scorer(const PolicySpec& spec) {
  for (const PolicyInfo& info : policies()) {
    if (info.name == spec.name)
      return info.make_scorer(PolicyOptions(spec, info.name, info.options));
  }
  return nullptr;
}

// The policy itself, and a second scorer whose scores of KV head 1 are written down.
class Watched final : public EvictionPolicy {
 public:
  explicit Watched(const std::string& text)
      : policy_(make_policy(text).policy), scorer_(make_scorer(parse_policy(text))) {}
  const PolicyTraits& traits() const override { return policy_->traits(); }
  void select(LayerView& view, KeepList& keep) override {
    scorer_->score(view, 1, scores[view.layer]);
    policy_->select(view, keep);
  }

  std::map<std::int64_t, Scores> scores;  // by layer

 private:
  std::unique_ptr<EvictionPolicy> policy_;
  std::unique_ptr<Scorer> scorer_;
};

struct Result {
  std::map<std::int64_t, Scores> scores;
  std::vector<std::vector<Ids>> kept;  // [layer][kv_head]
};

Result run(const std::string& policy, const Ids& ids, std::int64_t chunk) {
  Watched watched(policy);
  Session session(test::smollm2(), test::golden_backend(), watched, {.chunk = chunk});
  session.begin(static_cast<std::int64_t>(ids.size()));
  session.prefill(ids, {}, {});
  Result result{std::move(watched.scores), {}};
  for (std::int64_t layer = 0; layer < 30; ++layer) {
    result.kept.emplace_back();
    for (std::int64_t head = 0; head < 3; ++head) {
      result.kept.back().push_back(session.kept_positions(layer, head));
    }
  }
  return result;
}

// A hexadecimal number whose bit p stands for position p.
Ids positions_of(const std::string& mask) {
  Ids positions;
  for (std::size_t i = mask.size(); i-- > 0;) {
    const int digit = std::stoi(mask.substr(i, 1), nullptr, 16);
    for (int bit = 0; bit < 4; ++bit) {
      if ((digit >> bit) % 2 == 1) {
        positions.push_back(static_cast<std::int32_t>(4 * (mask.size() - 1 - i)) + bit);
      }
    }
  }
  return positions;
}

std::size_t common(const Ids& a, const Ids& b) {
  Ids both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both.size();
}

// Largest relative difference of scores at every third position; those of entries that must stay
// are whatever the published code put there.
double largest_difference(const Scores& scores, const json& expected) {
  double largest = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (scores[3 * i] == kAlwaysKept) continue;
    const double right = expected[i].get<double>();
    const double difference = std::abs(scores[3 * i] - right);
    // Ranks are 0 somewhere.
    largest = std::max(largest, difference / std::max(std::abs(right), 1e-12));
  }
  return largest;
}

TEST_CASE("entries that published code keeps, and its scores") {
  for (const json& reference_case : reference()["cases"]) {
    const auto policy = reference_case["policy"].get<std::string>();
    CAPTURE(policy);
    const auto prompt = reference_case["prompt"].get<std::string>();
    CAPTURE(prompt);
    const Result result = run(policy, reference()["prompts"][prompt].get<Ids>(), 256);
    const auto near_ties = reference_case["near_ties"].get<std::vector<std::vector<int>>>();
    for (int layer = 0; layer < 30; ++layer) {
      CAPTURE(layer);
      for (int head = 0; head < 3; ++head) {
        CAPTURE(head);
        const Ids& kept =
            result.kept[static_cast<std::size_t>(layer)][static_cast<std::size_t>(head)];
        const Ids right = positions_of(reference_case["masks"][layer][head].get<std::string>());
        const bool near_tie = std::find(near_ties.begin(), near_ties.end(),
                                        std::vector<int>{layer, head}) != near_ties.end();
        CHECK(kept.size() == right.size());
        CHECK(common(kept, right) >= right.size() - (near_tie ? 3 : 0));
      }
    }
    if (!reference_case.contains("scores")) continue;
    for (const auto& [layer, expected] : reference_case["scores"].items()) {
      CAPTURE(layer);
      CHECK(largest_difference(result.scores.at(std::stoi(layer)), expected) < 1e-4);
    }
  }
  CHECK(reference()["cases"].size() == 12);
}

TEST_CASE("lagkv's scores before they become ranks") {
  for (const json& reference_case : reference()["cases"]) {
    if (!reference_case.contains("partition_scores")) continue;
    const auto policy = reference_case["policy"].get<std::string>() + ",compare=score";
    CAPTURE(policy);
    const auto prompt = reference_case["prompt"].get<std::string>();
    const Result result = run(policy, reference()["prompts"][prompt].get<Ids>(), 256);
    for (const auto& [layer, expected] : reference_case["partition_scores"].items()) {
      CAPTURE(layer);
      CHECK(largest_difference(result.scores.at(std::stoi(layer)), expected) < 1e-4);
    }
  }
}

TEST_CASE("what is kept does not depend on the chunks of the prompt") {
  const Ids ids = reference()["prompts"]["p330"].get<Ids>();
  for (const char* policy : {"expected_attention:capacity=100", "rkv:capacity=100,timing=prefill",
                             "kvzip:capacity=100,chunk=150"}) {
    CAPTURE(policy);
    const auto configured = make_policy(policy);
    std::vector<Ids> kept;
    for (const std::int64_t chunk : {330, 64, 7}) {
      Session session(test::smollm2(), test::golden_backend(), *configured.policy,
                      {.chunk = chunk});
      session.begin(330);
      session.prefill(ids, {}, {});
      kept.push_back(session.kept_positions(29, 1));
    }
    // Rounding may swap one entry at the cut.
    CHECK(common(kept[0], kept[1]) + 1 >= kept[0].size());
    CHECK(common(kept[0], kept[2]) + 1 >= kept[0].size());
  }
}

}  // namespace
}  // namespace kvbench
