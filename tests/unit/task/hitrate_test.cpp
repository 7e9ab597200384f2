// The hit-rate task against counts made by loops over a Llama written outside the library and
// sessions that share nothing: every way in which a policy can come by its kept set.
#include "task/hitrate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "backend/registry.hpp"
#include "core/error.hpp"
#include "core/rng.hpp"
#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/random_model.hpp"
#include "tests/support/reference_llama.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

constexpr test::RandomModelShape kShape{.n_kv_heads = 2, .group = 3, .head_dim = 8, .hidden = 32};
constexpr std::size_t kPrompt = 48;
constexpr std::size_t kSteps = 14;
constexpr std::int64_t kTail = 5;

const std::string& model_directory() {
  static const test::TempDir directory;
  static const std::string path = [] {
    test::write_random_llama(directory, kShape, 8);
    return directory.path().string();
  }();
  return path;
}

const Ids& ids() {
  static const Ids made = [] {
    Ids all;
    Rng rng(4);
    for (std::size_t i = 0; i <= kPrompt + kSteps; ++i) {
      all.push_back(static_cast<std::int32_t>(rng.below(32)));
    }
    return all;
  }();
  return made;
}

HitRateRequest request_for(std::vector<std::string> policies) {
  HitRateRequest request;
  request.model = model_directory();
  request.backend = "cpu";
  request.policies = std::move(policies);
  request.tokens.ids = {ids()};
  request.prompt = kPrompt;
  request.steps = kSteps;
  request.tail = kTail;
  request.counting.thetas = {0.05, 0.01, 0.6};
  request.counting.top_k = 7;
  return request;
}

std::vector<RunRecord> run(const HitRateRequest& request) {
  TaskContext context;
  context.quiet = true;
  return run_hitrate(request, context);
}

double value(const RunRecord& record, const std::string& name) {
  const Metric* metric = find_metric(record, name);
  REQUIRE_MESSAGE(metric != nullptr, name);
  REQUIRE_MESSAGE(metric->value.has_value(), name);
  return *metric->value;
}

// [step][layer * kv_heads + kv_head]: what a session of its own holds at each step's query, and
// the losses.
struct Held {
  std::vector<std::vector<std::vector<bool>>> sets;
  double nll_sum = 0.0;
};

Held hold(const std::string& text) {
  const auto backend = make_backend("cpu", 1);
  const Model model = Model::load(model_directory(), *backend, DType::f32);
  const ConfiguredPolicy configured = make_policy(text);
  Session session(model, *backend, *configured.policy, {});
  const std::span<const std::int32_t> all(ids());
  session.begin(kPrompt + kSteps);
  session.prefill(all.first(kPrompt), {}, {}, all.subspan(kPrompt, kSteps));
  // Nothing else takes room before the query's own entry comes.
  const bool makes_room = configured.policy->traits().evict == EvictWhen::before;
  const bool window = configured.policy->traits().recompute_length.has_value();
  Held held;
  for (std::size_t step = 0; step < kSteps; ++step) {
    auto& sets = held.sets.emplace_back();
    double nll = 0.0;
    const auto feed = [&] {
      session.feed(all.subspan(kPrompt + step, 1), all.subspan(kPrompt + step + 1, 1), {&nll, 1});
    };
    // A window that slides holds at the query what it holds after it.
    if (window || makes_room) feed();
    for (std::int64_t layer = 0; layer < kShape.n_layers; ++layer) {
      for (std::int64_t kv_head = 0; kv_head < kShape.n_kv_heads; ++kv_head) {
        auto& kept = sets.emplace_back(kPrompt + kSteps, false);
        for (const std::int32_t position : session.kept_positions(layer, kv_head)) {
          kept[static_cast<std::size_t>(position)] = true;
        }
        kept[kPrompt + step] = true;
      }
    }
    if (!window && !makes_room) feed();
    held.nll_sum += nll;
  }
  return held;
}

const std::vector<std::vector<test::ReferenceLlama::Rows>>& dense_weights() {
  static const auto weights = [] {
    test::ReferenceLlama reference(model_directory(), false);
    reference.run(ids());
    return reference.weights;
  }();
  return weights;
}

struct Counted {
  std::int64_t hits = 0, large = 0, hits_after = 0, large_after = 0, empty = 0;
  double mass = 0.0, prompt_kept = 0.0, prompt_all = 0.0, top = 0.0;
};

Counted count(const Held& held, std::size_t layer, std::size_t head, double theta) {
  Counted c;
  for (std::size_t step = 0; step < kSteps; ++step) {
    const auto& row = dense_weights()[layer][head][kPrompt + step];
    const auto& kept = held.sets[step][layer * kShape.n_kv_heads + head / kShape.group];
    const std::size_t counted = kPrompt - kTail;
    std::vector<std::size_t> order;
    std::int64_t large = 0;
    for (std::size_t p = 0; p < row.size(); ++p) {
      if (kept[p]) c.mass += row[p];
      if (p >= counted) continue;
      order.push_back(p);
      c.prompt_all += row[p];
      if (kept[p]) c.prompt_kept += row[p];
      if (row[p] <= theta) continue;
      ++large;
      c.hits += kept[p] ? 1 : 0;
      c.large_after += p >= 4 ? 1 : 0;
      c.hits_after += kept[p] && p >= 4 ? 1 : 0;
    }
    c.large += large;
    c.empty += large == 0 ? 1 : 0;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
    for (std::size_t i = 0; i < 7; ++i) c.top += kept[order[i]] ? 1.0 / 7.0 : 0.0;
  }
  return c;
}

void check_policy(const RunRecord& record) {
  REQUIRE_MESSAGE(record.ok, record.reason);
  const Held held = hold(record.policy);
  const json details = json::parse(record.details_json);
  for (std::size_t theta = 0; theta < 3; ++theta) {
    const json& heads = details["heads"][theta];
    for (std::size_t layer = 0; layer < kShape.n_layers; ++layer) {
      for (std::size_t head = 0; head < 6; ++head) {
        const Counted expected = count(held, layer, head, heads["theta"].get<double>());
        const auto found = [&](const char* key) {
          return heads[key][layer][head].get<std::int64_t>();
        };
        CHECK(found("hits") == expected.hits);
        CHECK(found("large") == expected.large);
        CHECK(found("hits_after_sinks") == expected.hits_after);
        CHECK(found("large_after_sinks") == expected.large_after);
        CHECK(found("empty_steps") == expected.empty);
        CHECK(heads["hit_rate"][layer][head].is_null() == (expected.large == 0));
        const auto real = [&](const char* key) { return details[key][layer][head].get<double>(); };
        CHECK(real("mass_recall") == doctest::Approx(expected.mass / kSteps).epsilon(1e-5));
        CHECK(real("prompt_mass_recall") ==
              doctest::Approx(expected.prompt_kept / expected.prompt_all).epsilon(1e-5));
        CHECK(real("top_k_overlap") == doctest::Approx(expected.top / kSteps).epsilon(1e-9));
      }
    }
  }
  CHECK(value(record, "nll_mean") == doctest::Approx(held.nll_sum / kSteps).epsilon(1e-6));
}

TEST_CASE("hit rates of every kind of policy, against loops over dense attention") {
  const auto records = run(request_for(
      {"full", "snapkv:capacity=18,window=4,kernel=3", "oracle:capacity=12",
       "knorm:capacity=14,timing=prefill", "tova:capacity=12", "h2o:heavy=8,recent=6",
       "h2o:heavy=8,recent=6,timing=prefill", "random:capacity=12,timing=decode,interval=4",
       "tova:capacity=12,timing=chunked", "tova:capacity=12,positions=cache_index", "sink3+9",
       "sink3+9:evict=before", "window60", "recompute16", "pyramidkv:capacity=18,window=4"}));
  CHECK(records.size() == 15);
  for (const RunRecord& record : records) {
    CAPTURE(record.policy);
    check_policy(record);
  }
}

TEST_CASE("full holds everything: exactly 1, and no loss of its own") {
  const auto records = run(request_for({"full"}));
  const RunRecord& full = records.front();
  for (const char* name : {"hit_rate", "hit_rate_theta_0.01", "hit_rate_head_mean", "mass_recall",
                           "prompt_mass_recall", "top_k_overlap", "kept_share"}) {
    CAPTURE(name);
    CHECK(value(full, name) == 1.0);
  }
  CHECK(value(full, "nll_increase") == 0.0);
  CHECK(value(full, "evictions") == 0.0);
  CHECK(full.warnings.empty());
}

TEST_CASE("steps above no theta are left out, counted, and make no number out of nothing") {
  HitRateRequest request = request_for({"sink3+9"});
  request.counting.thetas = {1.0};
  const auto records = run(request);
  const Metric* rate = find_metric(records[0], "hit_rate");
  REQUIRE(rate != nullptr);
  CHECK(!rate->value.has_value());
  CHECK(rate->reason == "no attention above theta");
  CHECK(value(records[0], "empty_steps") == static_cast<double>(kSteps * 6 * kShape.n_layers));
  CHECK(value(records[0], "empty_heads") == 6.0 * kShape.n_layers);
}

TEST_CASE("neither the size of a forward nor the company of other policies changes a hit rate") {
  HitRateRequest request = request_for({"h2o:heavy=8,recent=6", "snapkv:capacity=18,window=4"});
  const auto together = run(request);
  request.chunk = 3;
  const auto in_pieces = run(request);
  request.policies = {"snapkv:capacity=18,window=4"};
  request.chunk = 512;
  const auto alone = run(request);
  const auto same = [](const RunRecord& a, const RunRecord& b) {
    for (const Metric& metric : a.metrics) {
      if (metric.unit == "s") continue;
      CAPTURE(metric.name);
      CHECK(value(b, metric.name) == doctest::Approx(*metric.value).epsilon(1e-5));
    }
  };
  same(together[0], in_pieces[0]);
  same(together[1], in_pieces[1]);
  same(together[1], alone[0]);
}

TEST_CASE("several prompts are counted together") {
  HitRateRequest request = request_for({"snapkv:capacity=12,window=4", "tova:capacity=10"});
  request.prompt = 20;
  request.steps = 10;
  request.segments = 2;
  const auto both = run(request);
  request.segments = 1;
  const auto first = run(request);
  request.offset = 31;
  const auto second = run(request);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(value(both[i], "large_entries") ==
          value(first[i], "large_entries") + value(second[i], "large_entries"));
    CHECK(
        value(both[i], "mass_recall") ==
        doctest::Approx((value(first[i], "mass_recall") + value(second[i], "mass_recall")) / 2.0));
    CHECK(value(both[i], "nll_increase") ==
          doctest::Approx((value(first[i], "nll_increase") + value(second[i], "nll_increase")) /
                          2.0));
    CHECK(value(both[i], "steps_counted") == 20.0);
  }
}

TEST_CASE("greedy steps are what the reference finds likeliest") {
  HitRateRequest request = request_for({"oracle:capacity=12", "full"});
  request.greedy = true;
  request.steps = 5;
  const auto records = run(request);
  Ids text(ids().begin(), ids().begin() + kPrompt);
  for (int step = 0; step < 5; ++step) {
    test::ReferenceLlama reference(model_directory(), false);
    const auto logits = reference.run(text);
    text.push_back(
        static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  }
  const json inputs = json::parse(records[0].details_json)["segments"][0]["inputs"];
  CHECK(inputs.get<Ids>() == Ids(text.begin() + kPrompt, text.end()));
  // The losses of the likeliest tokens cannot exceed log(vocabulary).
  CHECK(value(records[1], "nll_mean") < std::log(32.0));
}

TEST_CASE("without losses nothing is scored") {
  HitRateRequest request =
      request_for({"sink3+9", "tova:capacity=12", "snapkv:capacity=18,window=4"});
  const auto scored = run(request);
  request.nll = false;
  const auto plain = run(request);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CHECK(find_metric(plain[i], "nll_mean") == nullptr);
    CHECK(value(plain[i], "hit_rate") == value(scored[i], "hit_rate"));
    CHECK(value(plain[i], "mass_recall") == value(scored[i], "mass_recall"));
    CHECK(plain[i].config_hash != scored[i].config_hash);
  }
}

TEST_CASE("a hit-rate run that cannot be right is refused") {
  const auto fault = [](const std::function<void(HitRateRequest&)>& change) {
    HitRateRequest request = request_for({"full"});
    change(request);
    return test::error_text<Error>([&] { run(request); });
  };
  using test::contains;
  CHECK(contains(fault([](auto& r) { r.tail = kPrompt; }), "--tail 48"));
  CHECK(contains(fault([](auto& r) { r.steps = kSteps + 1; }), "segments of 64 tokens"));
  CHECK(contains(fault([](auto& r) { r.segments = 2; }), "1 segments of 63 tokens"));
  CHECK(contains(fault([](auto& r) { r.policies.clear(); }), "no policy"));
  CHECK(contains(fault([](auto& r) { r.questions = {"Who?"}; }), "--source greedy"));
  CHECK(contains(fault([](auto& r) {
                   r.questions = {"Who?"};
                   r.greedy = true;
                 }),
                 "no tokenizer"));
  CHECK(contains(fault([](auto& r) { r.kivi = KiviOptions{}; }), "not quantised"));
  HitRateRequest strict = request_for({"window100", "sink3+9"});
  strict.strict = true;
  const auto records = run(strict);
  CHECK(!records[0].ok);
  CHECK(contains(records[0].reason, "evicted nothing"));
  CHECK(records[1].ok);
  strict.strict = false;
  CHECK(run(strict)[0].warnings.size() == 1);
}

}  // namespace
}  // namespace kvbench
