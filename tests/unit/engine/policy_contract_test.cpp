// What every eviction policy must hold, whatever it scores by. The test walks the registry, so a
// new row is checked by being there: its usage string is scaled down to small budgets.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "backend/registry.hpp"
#include "core/error.hpp"
#include "core/rng.hpp"
#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "tests/support/random_model.hpp"
#include "tests/support/small_policies.hpp"

namespace kvbench {
namespace {

using Ids = std::vector<std::int32_t>;
// Places in the text of what is kept, [layer * kv_head].
using Kept = std::vector<Ids>;

constexpr std::array<std::int64_t, 5> kBudgets = {1, 2, 5, 9, 16};

// Prompts differ from seed to seed; KVBENCH_TEST_SEED sets it, and failures print it.
std::uint64_t test_seed() {
  const char* text = std::getenv("KVBENCH_TEST_SEED");
  return text == nullptr ? 20261130 : std::stoull(text);
}

const test::SmallPolicies& small_policies() {
  static const test::SmallPolicies small{test::RandomModelShape{}};
  return small;
}

Ids random_ids(Rng& rng, std::int64_t n) {
  Ids ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back(static_cast<std::int32_t>(rng.below(32)));
  return ids;
}

// A model in a folder of its own, and the backend that it runs on.
struct Bench {
  Bench(std::int64_t group, int threads) : backend(make_backend("cpu", threads)) {
    test::write_random_llama(directory, {.group = group}, static_cast<std::uint64_t>(group));
    model = std::make_unique<Model>(Model::load(directory.path(), *backend, DType::f32));
  }
  test::TempDir directory;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
};

Kept kept_of(const Session& session, const ModelConfig& config) {
  Kept kept;
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    for (std::int64_t head = 0; head < config.n_kv_heads; ++head) {
      kept.push_back(session.kept_positions(layer, head));
    }
  }
  return kept;
}

struct Outcome {
  Kept kept;
  std::vector<float> logits;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(Session& session, const ModelConfig& config) {
  Outcome outcome{kept_of(session, config), {}};
  if (session.tokens_fed() > 0) {
    outcome.logits.resize(static_cast<std::size_t>(config.vocab_size));
    session.last_logits(outcome.logits);
  }
  return outcome;
}

// A prompt, and then one token at a time; `seen` is called after the prompt and after each token.
template <class Seen>
void run(Session& session, const Ids& prompt, const Ids& decoded, Seen seen) {
  session.begin(static_cast<std::int64_t>(prompt.size() + decoded.size()));
  session.prefill(prompt, {}, {}, decoded);
  seen(0);
  std::int64_t step = 0;
  for (const std::int32_t id : decoded) {
    session.feed({&id, 1});
    seen(++step);
  }
}

Outcome run(const Bench& bench, const ConfiguredPolicy& policy, const Ids& prompt,
            const Ids& decoded, std::int64_t chunk = 4) {
  Session session(*bench.model, *bench.backend, *policy.policy, {.chunk = chunk, .seed = 7});
  run(session, prompt, decoded, [](std::int64_t) {});
  return outcome_of(session, bench.model->config());
}

// Entries per head that the policy may hold `steps` after the prompt.
std::int64_t allowed(const PolicyTraits& traits, std::int64_t steps) {
  const bool every_step = traits.kept || traits.recompute_length;
  if (!every_step && traits.timing != EvictTiming::decode) return traits.capacity + steps;
  return traits.capacity + (every_step ? 0 : traits.interval - 1);
}

void check_kept(const Kept& kept, std::int64_t fed) {
  for (const Ids& positions : kept) {
    REQUIRE(std::is_sorted(positions.begin(), positions.end()));
    REQUIRE(std::adjacent_find(positions.begin(), positions.end()) == positions.end());
    if (positions.empty()) continue;
    REQUIRE(positions.front() >= 0);
    REQUIRE(positions.back() < fed);
  }
}

void require_run(const Ids& positions, std::int64_t first, std::int64_t end) {
  for (std::int64_t at = std::max<std::int64_t>(first, 0); at < end; ++at) {
    CAPTURE(at);
    REQUIRE(std::binary_search(positions.begin(), positions.end(), at));
  }
}

// What a policy promises always to keep: its sinks, its recent entries, its observation window.
void check_promises(const ConfiguredPolicy& policy, const Kept& kept, std::int64_t fed) {
  const std::int64_t sinks = test::option_of(policy, "sinks").value_or(0);
  const std::int64_t recent = test::option_of(policy, "recent").value_or(0);
  const std::int64_t window = test::option_of(policy, "window").value_or(0);
  for (const Ids& positions : kept) {
    require_run(positions, 0, std::min(sinks, fed));
    require_run(positions, fed - std::max(recent, window), fed);
  }
}

// Empty and short prompts, and those around the window and the budget of the policy.
std::vector<std::int64_t> prompt_lengths(const ConfiguredPolicy& policy, std::int64_t budget,
                                         Rng& rng) {
  std::vector<std::int64_t> lengths{0, 1, budget, budget + 1, 30};
  if (const auto window = test::option_of(policy, "window")) {
    for (const std::int64_t more : {-1, 0, 1}) lengths.push_back(*window + more);
  }
  lengths.push_back(2 + static_cast<std::int64_t>(rng.below(40)));
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

bool has_window(const PolicyInfo& info) {
  const auto options = usage_options(info);
  return std::any_of(options.begin(), options.end(),
                     [](const PolicyOption& option) { return option.key == "window"; });
}

template <class Check>
void for_every_policy(std::int64_t budget, Check check) {
  for (const PolicyInfo& info : policies()) {
    CAPTURE(info.name);
    CAPTURE(budget);
    const auto policy = small_policies().make(info, budget);
    // One or two entries are too few only where an observation window must fit beside them.
    if (!policy) REQUIRE((budget <= 2 && has_window(info)));
    if (policy) check(info, *policy);
  }
}

// One sequence: whatever must hold after the prompt and after each further token.
void check_sequence(const Bench& bench, const ConfiguredPolicy& policy, Session& session,
                    std::int64_t length, Rng& rng) {
  const ModelConfig& config = bench.model->config();
  const PolicyTraits& traits = policy.policy->traits();
  const std::int64_t heads = config.n_layers * config.n_kv_heads;
  const Ids prompt = random_ids(rng, length);
  run(session, prompt, random_ids(rng, 12), [&](std::int64_t step) {
    CAPTURE(step);
    const Kept kept = kept_of(session, config);
    check_kept(kept, length + step);
    check_promises(policy, kept, length + step);
    std::int64_t entries = 0;
    for (const Ids& positions : kept) entries += static_cast<std::int64_t>(positions.size());
    REQUIRE(session.cache().live_bytes() == entries * 2 * config.head_dim * 4);
    if (traits.capacity < kUnlimited) REQUIRE(entries <= allowed(traits, step) * heads);
    // Nothing is lost unseen: what was fed is kept or counted as evicted.
    REQUIRE(entries + session.evicted_entries() == (length + step) * heads);
  });
}

TEST_CASE("policies: the budget is held, slots ascend, sinks and windows stay, for every shape") {
  const std::uint64_t seed = test_seed();
  CAPTURE(seed);
  Rng rng(seed);
  for (const std::int64_t group : {1, 3, 4, 8}) {
    CAPTURE(group);
    const Bench bench(group, 1);
    for (const std::int64_t budget : kBudgets) {
      for_every_policy(budget, [&](const PolicyInfo& info, const ConfiguredPolicy& policy) {
        if (info.name != "full") REQUIRE(policy.policy->traits().capacity == budget);
        Session session(*bench.model, *bench.backend, *policy.policy, {.chunk = 4, .seed = 7});
        for (const std::int64_t length : prompt_lengths(policy, budget, rng)) {
          CAPTURE(length);
          check_sequence(bench, policy, session, length, rng);
        }
      });
    }
  }
}

TEST_CASE("policies: one budget for the whole text gives what full gives") {
  const std::uint64_t seed = test_seed();
  CAPTURE(seed);
  Rng rng(seed);
  for (const std::int64_t group : {1, 3, 4, 8}) {
    const Bench bench(group, 1);
    const Ids prompt = random_ids(rng, 11);
    const Ids decoded = random_ids(rng, 5);
    const Outcome full = run(bench, make_policy("full"), prompt, decoded);
    for (const PolicyInfo& info : policies()) {
      CAPTURE(info.name);
      const bool has_modes =
          std::any_of(info.options.begin(), info.options.end(), [](const PolicyOption& option) {
            return option.key == "positions" &&
                   option.choices.find("cache_index") != std::string_view::npos;
          });
      // evict=after is the default: one entry more fits than `before` would leave.
      const auto original = small_policies().make(info, 16, has_modes ? "original" : "");
      const Outcome found = run(bench, *original, prompt, decoded);
      CHECK(found.kept == full.kept);
      CHECK(found.logits == full.logits);
      if (!has_modes) continue;
      const Outcome by_slot =
          run(bench, *small_policies().make(info, 16, "cache_index"), prompt, decoded);
      CHECK(by_slot.kept == full.kept);
      for (std::size_t i = 0; i < full.logits.size(); ++i) {
        CHECK(std::abs(by_slot.logits[i] - full.logits[i]) < 1e-5);
      }
    }
  }
}

TEST_CASE("policies: the same entries and logits for every number of threads") {
  const std::uint64_t seed = test_seed();
  CAPTURE(seed);
  Rng rng(seed);
  const Ids prompt = random_ids(rng, 23);
  const Ids decoded = random_ids(rng, 6);
  const Bench one(4, 1);
  for (const int threads : {2, 3, 4}) {
    CAPTURE(threads);
    const Bench many(4, threads);
    for (const std::int64_t budget : {5, 16}) {
      for_every_policy(budget, [&](const PolicyInfo&, const ConfiguredPolicy& policy) {
        const Outcome expected = run(one, policy, prompt, decoded);
        const Outcome found = run(many, policy, prompt, decoded);
        CHECK(found.kept == expected.kept);
        for (std::size_t i = 0; i < expected.logits.size(); ++i) {
          CHECK(std::abs(found.logits[i] - expected.logits[i]) < 1e-5);
        }
      });
    }
  }
}

TEST_CASE("policies: a sequence leaves no trace in the next one") {
  const Bench bench(3, 1);
  const std::uint64_t seed = test_seed();
  CAPTURE(seed);
  Rng rng(seed);
  const Ids first = random_ids(rng, 27);
  const Ids second = random_ids(rng, 14);
  const Ids decoded = random_ids(rng, 6);
  for (const std::int64_t budget : {2, 9}) {
    for_every_policy(budget, [&](const PolicyInfo&, const ConfiguredPolicy& policy) {
      const Outcome fresh = run(bench, policy, second, decoded);
      Session session(*bench.model, *bench.backend, *policy.policy, {.chunk = 4, .seed = 7});
      run(session, first, decoded, [](std::int64_t) {});
      run(session, second, decoded, [](std::int64_t) {});
      CHECK(outcome_of(session, bench.model->config()) == fresh);
    });
  }
}

TEST_CASE("policies: the chunks of a prompt do not matter, unless the policy acts on chunks") {
  const Bench bench(3, 1);
  const std::uint64_t seed = test_seed();
  CAPTURE(seed);
  Rng rng(seed);
  const Ids prompt = random_ids(rng, 30);
  const Ids decoded = random_ids(rng, 4);
  for (const std::int64_t budget : {5, 16}) {
    for_every_policy(budget, [&](const PolicyInfo&, const ConfiguredPolicy& policy) {
      if (policy.policy->traits().timing == EvictTiming::chunked) return;
      const Outcome whole = run(bench, policy, prompt, decoded, 64);
      for (const std::int64_t chunk : {1, 7, 8, 29}) {
        CAPTURE(chunk);
        const Outcome cut = run(bench, policy, prompt, decoded, chunk);
        CHECK(cut.kept == whole.kept);
        for (std::size_t i = 0; i < whole.logits.size(); ++i) {
          CHECK(std::abs(cut.logits[i] - whole.logits[i]) < 2e-5);
        }
      }
    });
  }
}

}  // namespace
}  // namespace kvbench
