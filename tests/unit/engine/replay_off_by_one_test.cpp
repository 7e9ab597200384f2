// The second pass behind a prompt under both softmaxes, held against attention weights of a Llama
// that the library has no part in: for kvzip, for the oracle, and for what they keep.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "backend/registry.hpp"
#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "tests/support/random_model.hpp"
#include "tests/support/reference_llama.hpp"

namespace kvbench {
namespace {

using Ids = std::vector<std::int32_t>;
using Scores = std::vector<double>;
using Place = std::pair<std::int64_t, std::int64_t>;  // layer, KV head

constexpr std::int64_t kGroup = 3;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kLayers = 2;
const Ids kPrompt{1, 5, 9, 14, 3, 3, 20, 7, 11, 30, 2, 8, 17, 25, 6, 12, 28, 4, 19, 10};
const Ids kFuture{13, 22, 5, 9, 1, 16};

// A policy that hands what the second pass found to the test, and then keeps what it keeps.
class Watched final : public EvictionPolicy {
 public:
  explicit Watched(const std::string& text) : policy_(make_policy(text).policy) {}
  const PolicyTraits& traits() const override { return policy_->traits(); }
  void select(LayerView& view, KeepList& keep) override {
    for (std::int64_t kv_head = 0; kv_head < view.n_kv_heads; ++kv_head) {
      const auto replayed = view.replayed(kv_head);
      scores[{view.layer, kv_head}].assign(replayed.begin(), replayed.end());
    }
    policy_->select(view, keep);
  }

  std::map<Place, Scores> scores;

 private:
  std::unique_ptr<EvictionPolicy> policy_;
};

// One model, its reference, and the sessions on it.
struct Bench {
  explicit Bench(bool softmax_off_by_one) : off_by_one(softmax_off_by_one) {
    const test::RandomModelShape shape{.n_layers = kLayers, .n_kv_heads = kHeads, .group = kGroup};
    test::write_random_llama(directory, shape, 21);
    model = std::make_unique<Model>(Model::load(directory.path(), *backend, DType::f32));
    reference = std::make_unique<test::ReferenceLlama>(directory.path(), off_by_one);
  }

  // Runs the policy on chunks of the prompt and checks the scores, and that the best `capacity`
  // entries of each head are kept, the first `sinks` before all others.
  void check(const std::string& text, std::map<Place, Scores> expected, std::int64_t chunk,
             std::size_t capacity, std::size_t sinks) {
    CAPTURE(text);
    CAPTURE(off_by_one);
    Watched watched(text);
    Session session(*model, *backend, watched, {.chunk = chunk, .softmax_off_by_one = off_by_one});
    session.begin(static_cast<std::int64_t>(kPrompt.size() + kFuture.size()));
    session.prefill(kPrompt, {}, {}, kFuture);
    REQUIRE(watched.scores.size() == expected.size());
    for (auto& [place, scores] : expected) {
      const Scores& found = watched.scores.at(place);
      REQUIRE(found.size() == kPrompt.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        CHECK(found[i] == doctest::Approx(scores[i]).epsilon(1e-4));
      }
      std::fill_n(scores.begin(), sinks, kAlwaysKept);
      Ids best(kPrompt.size());
      std::iota(best.begin(), best.end(), 0);
      std::stable_sort(best.begin(), best.end(), [&s = scores](std::int32_t a, std::int32_t b) {
        return s[static_cast<std::size_t>(a)] > s[static_cast<std::size_t>(b)];
      });
      best.resize(capacity);
      std::sort(best.begin(), best.end());
      CHECK(session.kept_positions(place.first, place.second) == best);
    }
  }

  bool off_by_one;
  test::TempDir directory;
  std::unique_ptr<Backend> backend = make_backend("cpu", 1);
  std::unique_ptr<Model> model;
  std::unique_ptr<test::ReferenceLlama> reference;
};

Ids joined(const Ids& a, const Ids& b) {
  Ids both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

// Calls `see` with the place of its KV head and every row of weights behind the prompt.
template <class See>
void for_rows_behind_prompt(const test::ReferenceLlama& reference, See see) {
  for (std::size_t layer = 0; layer < reference.weights.size(); ++layer) {
    for (std::size_t head = 0; head < reference.weights[layer].size(); ++head) {
      const Place place{layer, static_cast<std::int64_t>(head) / kGroup};
      const auto& rows = reference.weights[layer][head];
      for (std::size_t row = kPrompt.size(); row < rows.size(); ++row) see(place, rows[row]);
    }
  }
}

std::map<Place, Scores> no_scores() {
  std::map<Place, Scores> scores;
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      scores[{layer, head}].assign(kPrompt.size(), 0.0);
    }
  }
  return scores;
}

TEST_CASE("the reference and the library predict the same, under both softmaxes") {
  std::vector<std::vector<float>> found;
  for (const bool off_by_one : {false, true}) {
    Bench bench(off_by_one);
    const auto full = make_policy("full").policy;
    Session session(*bench.model, *bench.backend, *full, {.softmax_off_by_one = off_by_one});
    session.begin(static_cast<std::int64_t>(kPrompt.size()));
    session.prefill(kPrompt, {}, {});
    found.emplace_back(static_cast<std::size_t>(bench.model->config().vocab_size));
    session.last_logits(found.back());
    const auto expected = bench.reference->run(kPrompt);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(found.back()[i] == doctest::Approx(expected[i]).epsilon(1e-4));
    }
  }
  CHECK(found[0] != found[1]);
}

TEST_CASE("the oracle sums the weights that the continuation pays") {
  for (const bool off_by_one : {false, true}) {
    Bench bench(off_by_one);
    bench.reference->run(joined(kPrompt, kFuture));
    auto expected = no_scores();
    for_rows_behind_prompt(*bench.reference, [&](Place place, const Scores& row) {
      for (std::size_t i = 0; i < kPrompt.size(); ++i) expected[place][i] += row[i];
    });
    for (const std::int64_t chunk : {64, 5}) {
      bench.check("oracle:capacity=6", expected, chunk, 6, 0);
    }
  }
}

// An entry's score is its largest weight in a softmax over the sinks, its own chunk and what is
// replayed, which keeps the 1 in its denominator where the model's has it.
TEST_CASE("kvzip rates by the largest weight among sinks, chunk and replay") {
  constexpr std::size_t kChunk = 8;
  constexpr std::size_t kSinks = 2;
  for (const bool off_by_one : {false, true}) {
    Bench bench(off_by_one);
    auto expected = no_scores();
    for (std::size_t first = 0; first < kPrompt.size(); first += kChunk) {
      const std::size_t end = std::min(first + kChunk, kPrompt.size());
      const std::size_t cue = std::min<std::size_t>(first, 8);
      Ids replay{15, 21};
      for (std::size_t i = first - cue; i < end; ++i) replay.push_back(kPrompt[i]);
      bench.reference->run(joined(kPrompt, replay));
      for_rows_behind_prompt(*bench.reference, [&](Place place, const Scores& row) {
        double all = 0.0;
        double counted = 0.0;
        for (std::size_t i = 0; i < row.size(); ++i) {
          const bool sink = i < std::min(first, kSinks);
          all += row[i];
          if (sink || (i >= first && i < end) || i >= kPrompt.size()) counted += row[i];
        }
        // What the weights lack to 1 is what the denominator's own 1 has of it.
        if (off_by_one) counted += 1.0 - all;
        for (std::size_t i = first; i < end; ++i) {
          expected[place][i] = std::max(expected[place][i], row[i] / counted);
        }
      });
    }
    const std::string policy = "kvzip:capacity=7,chunk=8,sinks=2,instruction=15.21,scope=layer";
    for (const std::int64_t chunk : {64, 5}) bench.check(policy, expected, chunk, 7, kSinks);
  }
}

}  // namespace
}  // namespace kvbench
