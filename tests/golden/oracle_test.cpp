// The oracle is an upper bound: of the attention that a continuation pays with the full cache, no
// other policy's entries hold more, in any head.
#include <doctest/doctest.h>

#include <string>

#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "tests/golden/smollm2.hpp"
#include "tests/support/tiny_model.hpp"
#include "tests/support/window_probe.hpp"

namespace kvbench {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::size_t kPromptTokens = 270;
constexpr std::size_t kFutureTokens = 60;

struct Text {
  Ids prompt, future;
};

Text emma() {
  const Ids ids = test::read_golden("key_policies.json")["prompts"]["p330"].get<Ids>();
  const auto cut = ids.begin() + kPromptTokens;
  return {{ids.begin(), cut}, {cut, ids.end()}};
}

// Attention that each prompt entry receives from the continuation: [layer * 3 + kv_head][entry].
std::vector<std::vector<double>> later_attention(const Text& text) {
  Ids all = text.prompt;
  all.insert(all.end(), text.future.begin(), text.future.end());
  test::WindowProbe probe(kFutureTokens);
  Session session(test::smollm2(), test::golden_backend(), probe, {});
  session.begin(static_cast<std::int64_t>(all.size()));
  session.prefill(all, {}, {});
  std::vector<std::vector<double>> sums;
  for (const auto& layer : probe.weights) {
    for (std::size_t head = 0; head < layer.size(); ++head) {
      if (head % 3 == 0) sums.emplace_back(kPromptTokens, 0.0);
      for (const auto& row : layer[head]) {
        for (std::size_t entry = 0; entry < kPromptTokens; ++entry) {
          sums.back()[entry] += row[entry];
        }
      }
    }
  }
  return sums;
}

// Per head, the attention on what a policy keeps.
std::vector<double> captured(const std::string& text, const Text& emma_text,
                             const std::vector<std::vector<double>>& attention) {
  const auto policy = make_policy(text).policy;
  Session session(test::smollm2(), test::golden_backend(), *policy, {});
  session.begin(kPromptTokens + kFutureTokens);
  session.prefill(emma_text.prompt, {}, {}, emma_text.future);
  std::vector<double> sums;
  for (std::int64_t layer = 0; layer < 30; ++layer) {
    for (std::int64_t kv_head = 0; kv_head < 3; ++kv_head) {
      double sum = 0.0;
      for (const std::int32_t entry : session.kept_positions(layer, kv_head)) {
        sum += attention[sums.size()][static_cast<std::size_t>(entry)];
      }
      sums.push_back(sum);
    }
  }
  return sums;
}

double total(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum;
}

TEST_CASE("no policy keeps more of the attention to come than the oracle") {
  const Text text = emma();
  const auto attention = later_attention(text);
  const auto best = captured("oracle:capacity=54", text, attention);
  for (const std::string policy :
       {"knorm:capacity=54", "keydiff:capacity=54", "lagkv:capacity=54,lag=32",
        "expected_attention:capacity=54", "rkv:capacity=54,timing=prefill",
        "kvzip:capacity=54,scope=layer", "tova:capacity=54,timing=prefill",
        "h2o:heavy=27,recent=27,timing=prefill", "random:capacity=54", "sink4+50"}) {
    CAPTURE(policy);
    const auto other = captured(policy, text, attention);
    REQUIRE(other.size() == best.size());
    for (std::size_t head = 0; head < best.size(); ++head) {
      CHECK(other[head] <= best[head] * (1.0 + 1e-5));
    }
    CHECK(total(other) < 0.99 * total(best));
  }
  // One budget for all layers can only do better in sum.
  CHECK(total(captured("oracle:capacity=54,scope=model", text, attention)) >= total(best));
  CHECK(total(captured("kvzip:capacity=54", text, attention)) <=
        total(captured("oracle:capacity=54,scope=model", text, attention)));
}

}  // namespace
}  // namespace kvbench
