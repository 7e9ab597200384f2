// What every eviction policy must hold, whatever it scores by. The test walks the registry, so a
// new row is checked by being there: its usage string is scaled down to small budgets (see
// `with_budget`, which knows the keys that make up a budget).
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/registry.hpp"
#include "core/error.hpp"
#include "core/rng.hpp"
#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "tests/support/random_model.hpp"

namespace kvbench {
namespace {

using Ids = std::vector<std::int32_t>;
// Places in the text of what is kept, [layer * kv_head].
using Kept = std::vector<Ids>;

constexpr std::array<std::int64_t, 5> kBudgets = {1, 2, 5, 9, 16};

void set_option(PolicySpec& spec, const std::string& key, std::int64_t value) {
  for (auto& [known, text] : spec.options) {
    if (known == key) text = std::to_string(value);
  }
}

bool has_option(const PolicySpec& spec, const std::string& key) {
  return std::any_of(spec.options.begin(), spec.options.end(),
                     [&](const auto& pair) { return pair.first == key; });
}

// The policy of the row's usage string with a budget of so many entries; nothing where the policy
// says that this budget is too small for it.
std::optional<ConfiguredPolicy> with_budget(const PolicyInfo& info, std::int64_t budget,
                                            const std::string& positions = "") {
  PolicySpec spec = parse_policy(info.usage);
  for (const PolicyOption& option : usage_options(info)) {
    if (option.kind != OptionKind::integer || !has_option(spec, std::string(option.key))) continue;
    // Windows and the like: half of the budget at most.
    set_option(spec, std::string(option.key),
               std::max<std::int64_t>(static_cast<std::int64_t>(option.min), budget / 2));
  }
  for (const char* key : {"capacity", "length"}) set_option(spec, key, budget);
  // A budget in two parts: the newer one gets at least one entry.
  for (const char* key : {"sinks", "heavy"}) {
    if (!has_option(spec, key)) continue;
    set_option(spec, key, budget / 2);
    set_option(spec, "recent", budget - budget / 2);
  }
  if (!positions.empty()) spec.options.emplace_back("positions", positions);
  try {
    return make_policy(spec);
  } catch (const ConfigError& error) {
    if (budget == kBudgets.back()) FAIL(info.name << ": " << error.what());
    return std::nullopt;
  }
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

void check_sinks(const ConfiguredPolicy& policy, const Kept& kept, std::int64_t fed) {
  for (const auto& [key, value] : policy.options) {
    if (key != "sinks") continue;
    for (const Ids& positions : kept) {
      for (std::int32_t sink = 0; sink < std::min<std::int64_t>(std::stol(value), fed); ++sink) {
        REQUIRE(positions.at(static_cast<std::size_t>(sink)) == sink);
      }
    }
  }
}

template <class Check>
void for_every_policy(std::int64_t budget, Check check) {
  for (const PolicyInfo& info : policies()) {
    CAPTURE(info.name);
    CAPTURE(budget);
    if (info.needs_file) continue;
    const auto policy = with_budget(info, budget);
    if (policy) check(info, *policy);
  }
}

TEST_CASE("policies: the budget is held, slots ascend, sinks stay, for every shape and length") {
  for (const std::int64_t group : {1, 3, 4, 8}) {
    CAPTURE(group);
    const Bench bench(group, 1);
    const ModelConfig& config = bench.model->config();
    const std::int64_t heads = config.n_layers * config.n_kv_heads;
    for (const std::int64_t budget : kBudgets) {
      for_every_policy(budget, [&](const PolicyInfo& info, const ConfiguredPolicy& policy) {
        const PolicyTraits traits = policy.policy->traits();
        if (info.name != "full") REQUIRE(traits.capacity == budget);
        Session session(*bench.model, *bench.backend, *policy.policy, {.chunk = 4, .seed = 7});
        for (const std::int64_t length :
             {std::int64_t{0}, std::int64_t{1}, budget, budget + 1, std::int64_t{30}}) {
          CAPTURE(length);
          Rng rng(static_cast<std::uint64_t>(length * 100 + budget));
          const Ids prompt = random_ids(rng, length);
          run(session, prompt, random_ids(rng, 12), [&](std::int64_t step) {
            CAPTURE(step);
            const Kept kept = kept_of(session, config);
            check_kept(kept, length + step);
            check_sinks(policy, kept, length + step);
            std::int64_t entries = 0;
            for (const Ids& positions : kept) {
              entries += static_cast<std::int64_t>(positions.size());
            }
            REQUIRE(session.cache().live_bytes() == entries * 2 * config.head_dim * 4);
            if (traits.capacity < kUnlimited) REQUIRE(entries <= allowed(traits, step) * heads);
            // Nothing is lost unseen: what was fed is kept or counted as evicted.
            REQUIRE(entries + session.evicted_entries() == (length + step) * heads);
          });
        }
      });
    }
  }
}

TEST_CASE("policies: one budget for the whole text gives what full gives") {
  for (const std::int64_t group : {1, 3}) {
    const Bench bench(group, 1);
    Rng rng(1);
    const Ids prompt = random_ids(rng, 11);
    const Ids decoded = random_ids(rng, 5);
    const Outcome full = run(bench, make_policy("full"), prompt, decoded);
    for (const PolicyInfo& info : policies()) {
      CAPTURE(info.name);
      if (info.needs_file) continue;
      const bool has_modes =
          std::any_of(info.options.begin(), info.options.end(), [](const PolicyOption& option) {
            return option.key == "positions" &&
                   option.choices.find("cache_index") != std::string_view::npos;
          });
      // evict=after is the default: one entry more fits than `before` would leave.
      const auto original = with_budget(info, 16, has_modes ? "original" : "");
      const Outcome found = run(bench, *original, prompt, decoded);
      CHECK(found.kept == full.kept);
      CHECK(found.logits == full.logits);
      if (!has_modes) continue;
      const Outcome by_slot = run(bench, *with_budget(info, 16, "cache_index"), prompt, decoded);
      CHECK(by_slot.kept == full.kept);
      for (std::size_t i = 0; i < full.logits.size(); ++i) {
        CHECK(std::abs(by_slot.logits[i] - full.logits[i]) < 1e-5);
      }
    }
  }
}

TEST_CASE("policies: the same entries and logits for every number of threads") {
  Rng rng(2);
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
  Rng rng(3);
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
  Rng rng(4);
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
