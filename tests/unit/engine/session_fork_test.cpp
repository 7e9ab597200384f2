// Sessions that take another's prompt over, or go on where another one stands, are from then on
// what a text of their own would have made of them: the same entries, the same losses, bit for bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "backend/registry.hpp"
#include "engine/session.hpp"
#include "engine/twin_policy.hpp"
#include "tests/support/random_model.hpp"
#include "tests/support/small_policies.hpp"

namespace kvbench {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr test::RandomModelShape kShape{.n_kv_heads = 2, .group = 3, .head_dim = 8, .hidden = 32};
constexpr std::int64_t kPrompt = 70;
constexpr std::int64_t kLater = 20;

Backend& backend() {
  static const std::unique_ptr<Backend> one_thread = make_backend("cpu", 1);
  return *one_thread;
}

const Model& model() {
  static const test::TempDir directory;
  static const Model loaded = [] {
    test::write_random_llama(directory, kShape, 5);
    return Model::load(directory.path(), backend(), DType::f32);
  }();
  return loaded;
}

const Ids& ids() {
  static const Ids made = [] {
    Ids all;
    Rng rng(3);
    for (std::int64_t i = 0; i <= kPrompt + kLater; ++i) {
      all.push_back(static_cast<std::int32_t>(rng.uniform() * 32));
    }
    return all;
  }();
  return made;
}

std::span<const std::int32_t> prompt() {
  return std::span(ids()).first(kPrompt);
}
std::span<const std::int32_t> later() {
  return std::span(ids()).subspan(kPrompt, kLater);
}

struct Outcome {
  std::vector<std::vector<std::int32_t>> after_prompt, at_end;  // [layer * kv_heads + kv_head]
  std::vector<float> logits;                                    // after the prompt
  std::vector<double> nll;
  std::int64_t evicted = 0;
  std::int64_t peak = 0;        // bytes, at the prompt's end
  std::int64_t most_bytes = 0;  // at the end
  bool operator==(const Outcome&) const = default;
};

std::vector<std::vector<std::int32_t>> kept(const Session& session) {
  std::vector<std::vector<std::int32_t>> all;
  for (std::int64_t layer = 0; layer < kShape.n_layers; ++layer) {
    for (std::int64_t head = 0; head < kShape.n_kv_heads; ++head) {
      all.push_back(session.kept_positions(layer, head));
    }
  }
  return all;
}

Outcome finish(Session& session) {
  Outcome outcome;
  outcome.after_prompt = kept(session);
  outcome.logits.resize(static_cast<std::size_t>(kShape.vocab));
  session.last_logits(outcome.logits);
  outcome.peak = session.cache().peak_live_bytes();
  outcome.nll.resize(kLater);
  session.feed(later(), std::span(ids()).subspan(kPrompt + 1, kLater), outcome.nll);
  outcome.at_end = kept(session);
  outcome.evicted = session.evicted_entries();
  outcome.most_bytes = session.cache().peak_live_bytes();
  return outcome;
}

Outcome on_its_own(const ConfiguredPolicy& configured) {
  Session session(model(), backend(), *configured.policy, {.chunk = 32, .seed = 9});
  session.begin(kPrompt + kLater);
  session.prefill(prompt(), {}, {}, later());
  return finish(session);
}

TEST_CASE("a prompt taken over is as good as one of the session's own, for every policy") {
  const test::SmallPolicies small(kShape);
  TwinPolicy twin_policy;
  std::vector<ConfiguredPolicy> shared;
  for (const PolicyInfo& info : policies()) {
    for (const std::int64_t budget : {12, 200}) {
      auto made = small.make(info, budget);
      if (made && twin_policy.add(made->policy->traits())) shared.push_back(std::move(*made));
    }
  }
  for (const std::string text :
       {"h2o:heavy=5,recent=7,timing=prefill", "tova:capacity=11,evict=before",
        "snapkv:keep=0.3,window=4", "random:capacity=9,timing=decode,interval=3"}) {
    shared.push_back(make_policy(text));
    CHECK(twin_policy.add(shared.back().policy->traits()));
  }
  CHECK(shared.size() >= 20);
  Session twin(model(), backend(), twin_policy, {.chunk = 32, .seed = 9});
  twin.begin(kPrompt + kLater);
  twin.prefill(prompt(), {}, {});
  for (const ConfiguredPolicy& configured : shared) {
    CAPTURE(test::full_text(configured));
    CHECK(twin_policy.gathers_for(configured.policy->traits()));
    const Outcome own = on_its_own(configured);
    Session session(model(), backend(), *configured.policy, {.chunk = 32, .seed = 9});
    session.begin(kPrompt + kLater);
    session.prefill_from(twin, prompt(), later());
    const Outcome taken = finish(session);
    CHECK(taken.after_prompt == own.after_prompt);
    CHECK(taken.at_end == own.at_end);
    CHECK(taken.peak == own.peak);
    CHECK(taken.nll == own.nll);
    CHECK(taken == own);
    CHECK(twin.evicted_entries() == 0);
  }
}

TEST_CASE("a twin that went on and was taken back is what it was after its prompt") {
  TwinPolicy twin_policy;
  const ConfiguredPolicy configured = make_policy("h2o:heavy=6,recent=6");
  twin_policy.add(configured.policy->traits());
  Session twin(model(), backend(), twin_policy, {.chunk = 32});
  twin.begin(kPrompt + kLater);
  twin.prefill(prompt(), {}, {});
  std::vector<float> logits(static_cast<std::size_t>(kShape.vocab));
  twin.last_logits(logits);
  const Outcome first = finish(twin);
  CHECK(first.logits == logits);
  twin.rewind(kPrompt, logits);
  CHECK(twin.tokens_fed() == kPrompt);
  const Outcome own = on_its_own(configured);
  Session session(model(), backend(), *configured.policy, {.chunk = 32});
  session.begin(kPrompt + kLater);
  session.prefill_from(twin, prompt());
  const Outcome taken = finish(session);
  CHECK(taken == own);
  const Outcome again = finish(twin);
  CHECK(again.nll == first.nll);
  CHECK(again.logits == first.logits);
}

TEST_CASE("policies whose own eviction shapes the prompt cannot share it") {
  for (const std::string text :
       {"sink4+8", "sink2+8:positions=original", "window12", "recompute9",
        "tova:capacity=9,timing=chunked", "random:capacity=9,positions=cache_index"}) {
    CAPTURE(text);
    TwinPolicy twin;
    CHECK_FALSE(twin.add(make_policy(text).policy->traits()));
  }
  TwinPolicy twin;
  CHECK(twin.add(make_policy("full").policy->traits()));
  CHECK(twin.add(make_policy("snapkv:capacity=60,window=16").policy->traits()));
  CHECK(twin.gathers_for(make_policy("tova:capacity=9").policy->traits()));
  CHECK_FALSE(twin.gathers_for(make_policy("snapkv:capacity=60,window=32").policy->traits()));
  CHECK_FALSE(twin.gathers_for(make_policy("h2o:heavy=6,recent=6").policy->traits()));
}

TEST_CASE("a session goes on from where another one of its policy stands") {
  const test::SmallPolicies small(kShape);
  std::vector<ConfiguredPolicy> every;
  for (const PolicyInfo& info : policies()) {
    if (auto made = small.make(info, 12)) every.push_back(std::move(*made));
  }
  for (const char* text : {"knorm:keep=0.4,timing=decode", "tova:capacity=9,timing=chunked",
                           "random:capacity=9,positions=cache_index", "sink2+8:evict=before"}) {
    every.push_back(make_policy(text));
  }
  for (const ConfiguredPolicy& configured : every) {
    CAPTURE(test::full_text(configured));
    const Outcome own = on_its_own(configured);
    const SessionOptions options{.chunk = 32, .seed = 9};
    Session base(model(), backend(), *configured.policy, options);
    Session branch(model(), backend(), *configured.policy, options);
    base.begin(kPrompt + kLater);
    base.prefill(prompt(), {}, {}, later());
    for (int round = 0; round < 2; ++round) {
      branch.continue_from(base);
      CHECK(finish(branch) == own);
    }
    // Later, too: the second half of the steps.
    base.feed(later().first(kLater / 2));
    branch.continue_from(base);
    std::vector<double> nll(kLater / 2);
    branch.feed(later().subspan(kLater / 2), std::span(ids()).last(kLater / 2), nll);
    CHECK(kept(branch) == own.at_end);
    CHECK(branch.evicted_entries() == own.evicted);
    for (std::size_t i = 0; i < nll.size(); ++i) {
      CHECK(nll[i] == doctest::Approx(own.nll[i + kLater / 2]).epsilon(1e-5));
    }
    base.release();
    CHECK(base.cache().allocated_bytes() == 0);
  }
}

TEST_CASE(
    "an observer sees every layer before anything is evicted, with the softmax denominators") {
  class Counter final : public LayerHook {
   public:
    void after_attention(const LayerState& state, KvCache& cache) override {
      ++layers;
      longest = std::max(longest, cache.length(state.layer, 0));
      denominators = denominators && state.attention.log_sum_exp != nullptr;
    }
    std::int64_t layers = 0;
    std::int64_t longest = 0;
    bool denominators = true;
  };
  const ConfiguredPolicy configured = make_policy("tova:capacity=9");
  Session session(model(), backend(), *configured.policy, {.chunk = 32});
  session.begin(kPrompt + kLater);
  session.prefill(prompt(), {}, {});
  Counter counter;
  session.observe(&counter);
  session.feed(later());
  CHECK(counter.layers == kShape.n_layers * kLater);
  CHECK(counter.longest == 10);
  CHECK(counter.denominators);
  session.observe(nullptr);
  session.feed(later());
  CHECK(counter.layers == kShape.n_layers * kLater);
}

}  // namespace
}  // namespace kvbench
