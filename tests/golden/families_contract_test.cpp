// Every family under every registered policy: the budget is held, what is kept stands in order, a
// budget for the whole text gives what full gives to the bit, and chunks do not matter.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "backend/registry.hpp"
#include "engine/session.hpp"
#include "model/family.hpp"
#include "policy/registry.hpp"
#include "tests/golden/tiny_families.hpp"
#include "tests/support/small_policies.hpp"

namespace kvbench {
namespace {

using Ids = std::vector<std::int32_t>;
// Places in the text of what is kept, [layer * kv_head].
using Kept = std::vector<Ids>;

constexpr std::int64_t kBudget = 6;
constexpr std::size_t kPrompt = 13;
constexpr std::size_t kText = 19;

// A checkpoint, and every policy as it runs on it.
class Subject {
 public:
  explicit Subject(const std::filesystem::path& folder)
      : table_(test::has_position_table(folder)),
        backend_(make_backend("cpu", 1)),
        model_(Model::load(folder, *backend_, DType::f32)),
        small_(shape_of(model_.config())) {
    for (std::size_t i = 0; i < kText; ++i) {
      ids_.push_back(static_cast<std::int32_t>((i * i * 7 + 3 * i + 1) %
                                               static_cast<std::size_t>(config().vocab_size)));
    }
  }

  const ModelConfig& config() const { return model_.config(); }

  // At places in the text where that can be asked for, and `original` does or the model needs it.
  ConfiguredPolicy policy(const PolicyInfo& info, std::int64_t budget, bool original) const {
    const bool chooses = std::ranges::any_of(info.options, [](const PolicyOption& option) {
      return option.key == "positions" &&
             option.choices.find("cache_index") != std::string_view::npos;
    });
    return *small_.make(info, budget, chooses && (original || table_) ? "original" : "");
  }

  // `seen` is called after the prompt and after each token, with the number of those.
  template <class Seen>
  std::vector<float> run(const ConfiguredPolicy& policy, std::int64_t chunk, Seen seen) {
    Session session(model_, *backend_, *policy.policy, {.chunk = chunk, .seed = 7});
    const std::span<const std::int32_t> ids(ids_);
    session.begin(static_cast<std::int64_t>(kText));
    session.prefill(ids.first(kPrompt), {}, {}, ids.subspan(kPrompt));
    seen(session, 0);
    for (std::size_t at = kPrompt; at < kText; ++at) {
      session.feed(ids.subspan(at, 1));
      seen(session, static_cast<std::int64_t>(at + 1 - kPrompt));
    }
    std::vector<float> logits(static_cast<std::size_t>(config().vocab_size));
    session.last_logits(logits);
    return logits;
  }

  Kept kept_of(const Session& session) const {
    Kept kept;
    for (std::int64_t layer = 0; layer < config().n_layers; ++layer) {
      for (std::int64_t head = 0; head < config().n_kv_heads; ++head) {
        kept.push_back(session.kept_positions(layer, head));
      }
    }
    return kept;
  }

  struct Outcome {
    Kept kept;
    std::vector<float> logits;
  };

  Outcome outcome(const ConfiguredPolicy& policy, std::int64_t chunk) {
    Outcome outcome;
    outcome.logits = run(policy, chunk, [&](const Session& session, std::int64_t) {
      outcome.kept = kept_of(session);
    });
    return outcome;
  }

 private:
  static test::RandomModelShape shape_of(const ModelConfig& config) {
    return {
        .n_layers = config.n_layers, .n_kv_heads = config.n_kv_heads, .head_dim = config.head_dim};
  }

  bool table_;
  std::unique_ptr<Backend> backend_;
  Model model_;
  test::SmallPolicies small_;
  Ids ids_;
};

template <class Check>
void for_every_family_and_policy(Check check) {
  for (const auto& folder : test::family_checkpoints()) {
    CAPTURE(folder.filename().string());
    Subject subject(folder);
    for (const PolicyInfo& info : policies()) {
      CAPTURE(info.name);
      check(subject, info);
    }
  }
}

// Entries of all heads of a layer that the policy may hold `steps` after the prompt.
std::int64_t allowed(const PolicyTraits& traits, std::int64_t steps) {
  if (traits.capacity >= kUnlimited) return traits.capacity;
  const bool every_step = traits.kept || traits.recompute_length;
  if (!every_step && traits.timing != EvictTiming::decode) return traits.capacity + steps;
  return traits.capacity + (every_step ? 0 : traits.interval - 1);
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = a.size() == b.size() ? 0.0 : 1e300;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

}  // namespace

TEST_CASE("family contract: there is a checkpoint of every family") {
  std::set<std::string> types;
  for (const auto& folder : test::family_checkpoints()) {
    types.insert(read_model_config(folder).model_type);
  }
  for (const FamilySpec& family : families()) CHECK(types.contains(std::string(family.model_type)));
}

TEST_CASE("family contract: budgets are held, kept places ascend, nothing is lost unseen") {
  int evicting = 0;
  for_every_family_and_policy([&](Subject& subject, const PolicyInfo& info) {
    const ConfiguredPolicy policy = subject.policy(info, kBudget, false);
    const PolicyTraits traits = policy.policy->traits();
    const std::int64_t heads = subject.config().n_layers * subject.config().n_kv_heads;
    std::int64_t evicted = 0;
    subject.run(policy, 4, [&](const Session& session, std::int64_t step) {
      const std::int64_t fed = static_cast<std::int64_t>(kPrompt) + step;
      std::int64_t entries = 0;
      for (const Ids& places : subject.kept_of(session)) {
        REQUIRE(std::ranges::is_sorted(places));
        REQUIRE(std::ranges::adjacent_find(places) == places.end());
        if (!places.empty()) REQUIRE((places.front() >= 0 && places.back() < fed));
        entries += static_cast<std::int64_t>(places.size());
      }
      if (traits.capacity < kUnlimited) REQUIRE(entries <= allowed(traits, step) * heads);
      evicted = session.evicted_entries();
      REQUIRE(entries + evicted == fed * heads);
    });
    CHECK((evicted > 0) == (traits.capacity < kUnlimited));
    if (evicted > 0) ++evicting;
  });
  CHECK(evicting > 400);
}

TEST_CASE("family contract: room for the whole text gives what full gives") {
  for_every_family_and_policy([&](Subject& subject, const PolicyInfo& info) {
    const auto full = subject.outcome(make_policy("full"), 4);
    const auto roomy = static_cast<std::int64_t>(4 * kText);
    const auto original = subject.outcome(subject.policy(info, roomy, true), 4);
    CHECK(original.kept == full.kept);
    CHECK(original.logits == full.logits);
    const auto by_place = subject.outcome(subject.policy(info, roomy, false), 4);
    CHECK(by_place.kept == full.kept);
    CHECK(largest_difference(by_place.logits, full.logits) < 5e-5);
  });
}

TEST_CASE("family contract: the chunks of a prompt do not matter") {
  for_every_family_and_policy([&](Subject& subject, const PolicyInfo& info) {
    const ConfiguredPolicy policy = subject.policy(info, kBudget, false);
    if (policy.policy->traits().timing == EvictTiming::chunked) return;
    const auto whole = subject.outcome(policy, 64);
    for (const std::int64_t chunk : {1, 5}) {
      CAPTURE(chunk);
      const auto cut = subject.outcome(policy, chunk);
      CHECK(cut.kept == whole.kept);
      CHECK(largest_difference(cut.logits, whole.logits) < 5e-5);
    }
  });
}

}  // namespace kvbench
