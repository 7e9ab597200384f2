// Greedy decoding: the same ids as feeding the likeliest one by hand, stop tokens, limits.
#include "engine/generate.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "backend/registry.hpp"
#include "core/error.hpp"
#include "policy/registry.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using Ids = std::vector<std::int32_t>;

const Ids kPrompt{1, 5, 9, 14, 3, 3, 20, 7, 11, 30, 2, 8};

struct Run {
  Run()
      : backend(make_backend("cpu", 1)),
        model(Model::load(test::tiny_model("llama"), *backend, DType::f32)),
        policy(make_policy("full").policy),
        session(model, *backend, *policy, {}) {
    session.begin(64);
    session.prefill(kPrompt, {}, {});
  }
  std::unique_ptr<Backend> backend;
  Model model;
  std::unique_ptr<EvictionPolicy> policy;
  Session session;
};

Ids by_hand(int n) {
  Run run;
  Ids ids;
  std::vector<float> logits(static_cast<std::size_t>(run.session.vocab_size()));
  for (int i = 0; i < n; ++i) {
    run.session.last_logits(logits);
    std::size_t best = 0;
    for (std::size_t id = 1; id < logits.size(); ++id) {
      if (logits[id] > logits[best]) best = id;
    }
    ids.push_back(static_cast<std::int32_t>(best));
    run.session.feed({&ids.back(), 1});
  }
  return ids;
}

TEST_CASE("greedy: the likeliest id each time; the last one is not fed") {
  const Ids expected = by_hand(12);
  for (const std::int64_t n : {0, 1, 5, 12}) {
    Run run;
    const Generation found = generate_greedy(run.session, {.max_new_tokens = n});
    CHECK(found.ids == Ids(expected.begin(), expected.begin() + n));
    CHECK_FALSE(found.stopped);
    CHECK(run.session.tokens_fed() == 12 + std::max<std::int64_t>(0, n - 1));
  }
}

TEST_CASE("greedy: a stop token ends it, but not among the first few") {
  const Ids expected = by_hand(12);
  const Ids stops{-1, 4000, expected[0]};
  Run at_once;
  const Generation none =
      generate_greedy(at_once.session, {.max_new_tokens = 12, .stop_ids = stops});
  CHECK(none.ids.empty());
  CHECK(none.stopped);
  Run later;
  const Generation some = generate_greedy(
      later.session, {.max_new_tokens = 12, .stop_ids = stops, .min_new_tokens = 2});
  REQUIRE(some.ids.size() >= 2);
  for (const std::int32_t id : some.ids) CHECK(id != expected[0]);
}

TEST_CASE("the likeliest id: the lower one of equals; NaN and nothing but infinities are errors") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(likeliest_id(std::vector<float>{1, 3, 3, 2}, 0) == 1);
  CHECK(likeliest_id(std::vector<float>{-infinity, -4}, 0) == 1);
  CHECK_THROWS_AS(likeliest_id(std::vector<float>{1, std::nanf("")}, 7), DataError);
  CHECK_THROWS_AS(likeliest_id(std::vector<float>{-infinity, -infinity}, 7), DataError);
  CHECK_THROWS_AS(likeliest_id(std::vector<float>{1, infinity}, 7), DataError);
}

}  // namespace
}  // namespace kvbench
