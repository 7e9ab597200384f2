// A model over several devices: sessions give what one device gives, to the last bit, under every
// policy and for every family; each device holds its share of layers and no more.
#include <doctest/doctest.h>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/split/split_backend.hpp"
#include "engine/session.hpp"
#include "tests/golden/tiny_families.hpp"
#include "tests/support/random_model.hpp"
#include "tests/support/small_policies.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kPrompt = 30;
constexpr std::int64_t kTokens = 44;

std::unique_ptr<SplitBackend> split_over(int n_devices) {
  std::vector<std::unique_ptr<Backend>> devices;
  for (int i = 0; i < n_devices; ++i) devices.push_back(std::make_unique<CpuBackend>(1));
  return std::make_unique<SplitBackend>(std::move(devices));
}

struct Outcome {
  std::vector<double> nll;
  std::vector<float> logits;
  std::vector<std::vector<std::int32_t>> kept;  // [layer * kv_heads + kv_head]
  std::int64_t evicted = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome run(Backend& backend, const std::filesystem::path& folder, EvictionPolicy& policy) {
  const Model model = Model::load(folder, backend, DType::f32);
  const ModelConfig& config = model.config();
  const bool table = config.positions == PositionKind::table;
  const std::int64_t n = table ? std::min(kTokens, config.max_positions) : kTokens;
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < n; ++i) {
    ids.push_back(static_cast<std::int32_t>((i * i * 7 + 3 * i + i / 11) % config.vocab_size));
  }
  const std::span<const std::int32_t> all(ids);
  const auto prompt = static_cast<std::size_t>(std::min(kPrompt, n / 2));
  Session session(model, backend, policy, {.chunk = 13, .kv_dtype = DType::f32, .seed = 3});
  Outcome outcome;
  outcome.nll.resize(ids.size() - 1);
  const std::span<double> nll(outcome.nll);
  session.begin(n);
  session.prefill(all.first(prompt), all.subspan(1, prompt), nll.first(prompt),
                  all.subspan(prompt));
  session.feed(all.subspan(prompt, ids.size() - 1 - prompt), all.subspan(prompt + 1),
               nll.subspan(prompt));
  outcome.logits.resize(static_cast<std::size_t>(config.vocab_size));
  session.last_logits(outcome.logits);
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    for (std::int64_t head = 0; head < config.n_kv_heads; ++head) {
      outcome.kept.push_back(session.kept_positions(layer, head));
    }
  }
  outcome.evicted = session.evicted_entries();
  return outcome;
}

TEST_CASE("every policy gives on two and three devices what it gives on one") {
  constexpr test::RandomModelShape kShape{
      .n_layers = 5, .n_kv_heads = 2, .group = 3, .head_dim = 8, .hidden = 32};
  const test::TempDir directory;
  test::write_random_llama(directory, kShape, 5);
  const test::SmallPolicies small(kShape);
  for (const PolicyInfo& info : policies()) {
    const auto configured = small.make(info, 9);
    REQUIRE(configured.has_value());
    CAPTURE(configured->text);
    CpuBackend one(1);
    const Outcome expected = run(one, directory.path(), *configured->policy);
    for (const int n_devices : {1, 2, 3}) {
      CAPTURE(n_devices);
      const auto split = split_over(n_devices);
      const Outcome found = run(*split, directory.path(), *configured->policy);
      CHECK(found == expected);
    }
  }
}

TEST_CASE("every family gives on two devices what it gives on one") {
  for (const std::filesystem::path& folder : test::family_checkpoints()) {
    CAPTURE(folder.filename().string());
    for (const std::string policy :
         {"full", "sink:sinks=2,recent=7,positions=original", "h2o:heavy=5,recent=4"}) {
      CpuBackend one(1);
      const auto split = split_over(2);
      const ConfiguredPolicy configured = make_policy(policy);
      const Outcome expected = run(one, folder, *configured.policy);
      CHECK(run(*split, folder, *configured.policy) == expected);
    }
  }
}

}  // namespace
}  // namespace kvbench
