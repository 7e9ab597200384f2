// The second pass behind a prompt: what it sees equals attention over prompt and replayed tokens
// laid end to end, and nothing of it remains.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "backend/registry.hpp"
#include "core/error.hpp"
#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/tiny_model.hpp"
#include "tests/support/window_probe.hpp"

namespace kvbench {
namespace {

using Ids = std::vector<std::int32_t>;

const Ids kPrompt{1, 5, 9, 14, 3, 3, 20, 7, 11, 30, 2, 8, 17, 25, 6, 12, 28, 4, 19, 10};
const Ids kFuture{13, 22, 5, 9, 1, 16};

Backend& backend() {
  static const auto backend = make_backend("cpu", 1);
  return *backend;
}

const Model& model() {
  static const Model model = Model::load(test::tiny_model("llama"), backend(), DType::f32);
  return model;
}

struct Run {
  explicit Run(const std::string& text, std::int64_t chunk = 64)
      : policy(make_policy(text).policy), session(model(), backend(), *policy, {.chunk = chunk}) {
    session.begin(static_cast<std::int64_t>(kPrompt.size() + kFuture.size()));
    session.prefill(kPrompt, {}, {}, kFuture);
  }
  std::unique_ptr<EvictionPolicy> policy;
  Session session;
};

std::vector<float> logits_of(Session& session) {
  std::vector<float> logits(static_cast<std::size_t>(model().config().vocab_size));
  session.last_logits(logits);
  return logits;
}

// Reads the scores of a second pass, and the keys as they are after it.
class ReplayReader final : public EvictionPolicy {
 public:
  explicit ReplayReader(const std::string& text) : traits_(make_policy(text).policy->traits()) {
    traits_.scope = EvictScope::layer;
  }
  const PolicyTraits& traits() const override { return traits_; }
  void select(LayerView& view, KeepList& keep) override {
    for (std::int64_t kv_head = 0; kv_head < view.n_kv_heads; ++kv_head) {
      if (traits_.needs.replay.tokens != ReplayNeeds::Tokens::none) {
        const auto replayed = view.replayed(kv_head);
        scores[{view.layer, kv_head}].assign(replayed.begin(), replayed.end());
      }
      const auto stored = view.keys(kv_head);
      keys[{view.layer, kv_head}].assign(stored.begin(), stored.end());
      keep[static_cast<std::size_t>(kv_head)] = {0};
    }
  }

  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>> scores;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<float>> keys;

 private:
  PolicyTraits traits_;
};

ReplayReader read_replay(const std::string& policy, std::int64_t chunk) {
  ReplayReader reader(policy);
  Session session(model(), backend(), reader, {.chunk = chunk});
  session.begin(static_cast<std::int64_t>(kPrompt.size()));
  session.prefill(kPrompt, {}, {}, kFuture);
  return reader;
}

// Attention weights of the last queries of a text, [layer][head][row][entry].
auto attention_rows(const Ids& text, std::size_t rows) {
  test::WindowProbe probe(static_cast<std::int64_t>(rows));
  Session session(model(), backend(), probe, {.chunk = 64});
  session.begin(static_cast<std::int64_t>(text.size()));
  session.prefill(text, {}, {});
  return probe.weights;
}

Ids joined(const Ids& a, const Ids& b) {
  Ids both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

TEST_CASE("a continuation's scores are the attention that it pays") {
  const auto rows = attention_rows(joined(kPrompt, kFuture), kFuture.size());
  for (const std::int64_t chunk : {64, 3}) {
    const ReplayReader reader = read_replay("oracle:capacity=5", chunk);
    for (const auto& [place, scores] : reader.scores) {
      REQUIRE(scores.size() == kPrompt.size());
      const std::int64_t group = model().config().group_size();
      for (std::size_t entry = 0; entry < scores.size(); ++entry) {
        double expected = 0.0;
        for (std::int64_t g = 0; g < group; ++g) {
          const auto& head = rows[static_cast<std::size_t>(place.first)]
                                 [static_cast<std::size_t>(place.second * group + g)];
          for (const auto& row : head) expected += row[entry];
        }
        CHECK(scores[entry] == doctest::Approx(expected).epsilon(1e-4));
      }
    }
  }
}

// Chunks of 8: entries 8 .. 15 are rated by what follows the instruction and the cue.
TEST_CASE("a reconstruction's scores are the largest weights among sinks, chunk and replay") {
  const ReplayReader reader = read_replay("kvzip:capacity=5,chunk=8,sinks=2,instruction=15.21", 64);
  const std::int64_t group = model().config().group_size();
  for (std::size_t first = 0; first < kPrompt.size(); first += 8) {
    const std::size_t end = std::min(first + 8, kPrompt.size());
    const std::size_t cue = std::min<std::size_t>(first, 8);
    Ids replay{15, 21};
    for (std::size_t i = first - cue; i < end; ++i) replay.push_back(kPrompt[i]);
    const auto rows = attention_rows(joined(kPrompt, replay), replay.size());
    const std::size_t sinks = std::min<std::size_t>(first, 2);
    for (const auto& [place, scores] : reader.scores) {
      std::vector<double> expected(end - first, 0.0);
      for (std::int64_t g = 0; g < group; ++g) {
        for (const auto& row : rows[static_cast<std::size_t>(place.first)]
                                   [static_cast<std::size_t>(place.second * group + g)]) {
          double share = 0.0;
          for (std::size_t i = 0; i < row.size(); ++i) {
            const bool counts = i < sinks || (i >= first && i < end) || i >= kPrompt.size();
            share += counts ? row[i] : 0.0;
          }
          for (std::size_t i = first; i < end; ++i) {
            expected[i - first] = std::max(expected[i - first], row[i] / share);
          }
        }
      }
      for (std::size_t i = first; i < end; ++i) {
        CHECK(scores[i] == doctest::Approx(expected[i - first]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("a second pass leaves the prompt's entries and its prediction as they were") {
  Run full("full");
  const auto logits = logits_of(full.session);
  for (const char* policy : {"kvzip:capacity=6,chunk=7", "oracle:capacity=6"}) {
    CAPTURE(policy);
    const ReplayReader reader = read_replay(policy, 64);
    const ReplayReader other = read_replay("knorm:capacity=6", 64);  // has no second pass
    CHECK(reader.keys == other.keys);
    CHECK(reader.keys.at({0, 0}).size() ==
          kPrompt.size() * static_cast<std::size_t>(model().config().head_dim));
    Run run(policy);
    CHECK(logits_of(run.session) == logits);
    CHECK(run.session.tokens_fed() == static_cast<std::int64_t>(kPrompt.size()));
    CHECK(run.session.cache().longest() <= static_cast<std::int64_t>(kPrompt.size()));
    // What is said of eviction counts the prompt's entries only.
    const std::int64_t heads = model().config().n_layers * model().config().n_kv_heads;
    CHECK(run.session.evicted_entries() == heads * static_cast<std::int64_t>(kPrompt.size() - 6));
    run.session.feed(kFuture);
    CHECK(logits_of(run.session) != logits);
  }
}

TEST_CASE("a budget of the whole prompt changes nothing at all") {
  Run full("full");
  full.session.feed(kFuture);
  for (const char* policy :
       {"kvzip:capacity=20", "kvzip:keep=1", "oracle:capacity=99,scope=model", "oracle:keep=1"}) {
    CAPTURE(policy);
    Run run(policy);
    run.session.feed(kFuture);
    CHECK(run.session.evicted_entries() == 0);
    CHECK(logits_of(run.session) == logits_of(full.session));
  }
}

TEST_CASE("one budget for the whole model is kept to the entry") {
  const std::int64_t layers = model().config().n_layers;
  const std::int64_t heads = model().config().n_kv_heads;
  for (const std::int64_t capacity : {1, 2, 5, 19}) {
    for (const std::string policy : {"kvzip:sinks=0", "kvzip:sinks=4", "oracle:scope=model"}) {
      if (policy == "kvzip:sinks=4" && capacity <= 4) continue;
      const std::string text = policy + ",capacity=" + std::to_string(capacity);
      CAPTURE(text);
      Run run(text);
      Run again(text, 3);
      std::int64_t total = 0;
      for (std::int64_t layer = 0; layer < layers; ++layer) {
        for (std::int64_t head = 0; head < heads; ++head) {
          const Ids kept = run.session.kept_positions(layer, head);
          total += static_cast<std::int64_t>(kept.size());
          CHECK(std::is_sorted(kept.begin(), kept.end()));
          CHECK(kept == again.session.kept_positions(layer, head));
          if (policy == "kvzip:sinks=4") {
            REQUIRE(kept.size() >= 4);
            CHECK(kept[3] == 3);  // sinks
          }
        }
      }
      CHECK(total == capacity * layers * heads);
      run.session.feed(kFuture);
      CHECK(logits_of(run.session).size() == logits_of(again.session).size());
    }
  }
}

TEST_CASE("a policy that looks ahead says so where nothing is known of what follows") {
  const auto policy = make_policy("oracle:capacity=5").policy;
  Session session(model(), backend(), *policy, {});
  session.begin(20);
  CHECK(test::contains(test::error_text<ConfigError>([&] { session.prefill(kPrompt, {}, {}); }),
                       "after the prompt"));
}

}  // namespace
}  // namespace kvbench
