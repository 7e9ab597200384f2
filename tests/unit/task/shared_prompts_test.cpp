// Policies that run together share prompts: every record is, to the last bit, that of the policy
// alone, and a prompt is run once, where memory allows it.
#include <doctest/doctest.h>

#include <memory>
#include <set>

#include "backend/registry.hpp"
#include "task/ppl.hpp"
#include "task/shared_prompts.hpp"
#include "tests/support/small_policies.hpp"

namespace kvbench {
namespace {

constexpr test::RandomModelShape kShape{.n_layers = 3, .group = 2};
constexpr std::int64_t kPrompt = 30;
constexpr std::int64_t kScore = 6;
constexpr std::int64_t kBudget = 9;

std::vector<std::int32_t> random_ids(std::int64_t count) {
  Rng rng(5);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>(rng.below(32)));
  }
  return ids;
}

PplRequest request_on(const std::filesystem::path& model) {
  PplRequest request;
  request.model = model.string();
  request.backend = "cpu";
  request.chunk = 8;
  request.tokens.ids = {random_ids(3 * (kPrompt + kScore) + 1)};
  request.protocol = "continue";
  request.protocol_options = {.prompt = kPrompt, .score = kScore};
  return request;
}

std::vector<RunRecord> run(const PplRequest& request) {
  TaskContext context;
  context.quiet = true;
  return run_ppl(request, context);
}

// Rates and memory of the process differ from run to run; policy full is not there alone.
bool is_result(const Metric& metric) {
  static const std::set<std::string> kOthers = {"tokens_per_s", "prefill_tokens_per_s",
                                                "peak_rss_bytes", "ratio_to_full"};
  return !kOthers.contains(metric.name);
}

double seconds_of(const RunRecord& record, const std::string& name) {
  for (const Timing& timing : record.timings) {
    if (timing.name == name) return timing.seconds;
  }
  FAIL("no such timing: " << name);
  return 0.0;
}

TEST_CASE("every policy's record is the same alone and with all others") {
  const test::TempDir directory;
  test::write_random_llama(directory, kShape, 5);
  const test::SmallPolicies small(kShape);
  PplRequest request = request_on(directory.path());
  for (const PolicyInfo& info : policies()) {
    request.policies.push_back(test::full_text(*small.make(info, kBudget)));
  }
  for (const std::string text : {"snapkv:keep=0.4,window=3", "tova:capacity=9,timing=chunked",
                                 "h2o:heavy=4,recent=5,timing=prefill"}) {
    request.policies.push_back(text);
  }
  int shared = 0;
  for (const RunRecord& together : run(request)) {
    CAPTURE(together.policy);
    REQUIRE_MESSAGE(together.ok, together.reason);
    PplRequest one = request;
    one.policies = {together.policy};
    const RunRecord alone = run(one).front();
    REQUIRE_MESSAGE(alone.ok, alone.reason);
    CHECK(together.config_hash == alone.config_hash);
    CHECK(together.details_json == alone.details_json);
    CHECK(together.warnings == alone.warnings);
    REQUIRE(together.metrics.size() == alone.metrics.size());
    for (std::size_t i = 0; i < alone.metrics.size(); ++i) {
      CAPTURE(alone.metrics[i].name);
      CHECK(together.metrics[i].name == alone.metrics[i].name);
      if (is_result(alone.metrics[i])) CHECK(together.metrics[i].value == alone.metrics[i].value);
    }
    CHECK(seconds_of(alone, "prefill_shared") == 0.0);
    shared += seconds_of(together, "prefill_shared") > 0.0 ? 1 : 0;
  }
  CHECK(shared >= 15);
}

TEST_CASE("prompts are shared by two policies or more, within the limit, until they are given up") {
  const test::TempDir directory;
  test::write_random_llama(directory, kShape, 5);
  const auto backend = make_backend("cpu", 1);
  const Model model = Model::load(directory.path(), *backend, DType::f32);
  const std::vector<std::int32_t> prompt = random_ids(kPrompt);
  const std::int64_t prompt_bytes = kPrompt * model.config().kv_bytes_per_token(DType::f32);
  const ConfiguredPolicy snapkv = make_policy("snapkv:capacity=9,window=3");
  const ConfiguredPolicy sink = make_policy("sink4+5");
  const PolicyTraits& traits = snapkv.policy->traits();
  const auto find = [&](SharedPrompts& prompts, std::int64_t id) {
    return prompts.find(id, prompt, kPrompt + 1, traits);
  };

  SharedPrompts prompts(model, *backend, {}, 2 * prompt_bytes);
  prompts.add(traits);
  prompts.add(sink.policy->traits());
  CHECK(find(prompts, 0) == nullptr);
  prompts.add(make_policy("tova:capacity=9").policy->traits());
  const SharedPrompt* first = find(prompts, 0);
  REQUIRE(first != nullptr);
  CHECK(first->twin->tokens_fed() == kPrompt);
  CHECK(find(prompts, 1) != nullptr);
  CHECK(find(prompts, 2) == nullptr);
  CHECK(find(prompts, 0) == first);
  CHECK(prompts.find(0, prompt, kPrompt + 1, sink.policy->traits()) == nullptr);
  CHECK(prompts.find(0, prompt, kPrompt + 1,
                     make_policy("h2o:heavy=4,recent=5").policy->traits()) == nullptr);
  CHECK(prompts.release());
  CHECK(find(prompts, 0) == nullptr);
  CHECK_FALSE(prompts.release());
}

}  // namespace
}  // namespace kvbench
