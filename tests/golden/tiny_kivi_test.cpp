// Quantised storage under the policies, on the tiny checkpoints: it acts, it is told of, it does
// not depend on chunks, and policies see what attention sees.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "backend/registry.hpp"
#include "core/error.hpp"
#include "engine/session.hpp"
#include "model/model.hpp"
#include "tests/golden/tiny_run.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::Ids;

constexpr KiviOptions kTwoBits{.bits = 2, .group = 4, .residual = 8};

Ids text(std::int64_t n) {
  const Ids base = test::ids_of("P40");
  Ids ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back(base[static_cast<std::size_t>(i % 40)]);
  return ids;
}

// `ids` split into a prompt and forced tokens.
Trace run(const std::string& policy, std::optional<KiviOptions> kivi, std::size_t prompt,
          std::int64_t n = 60, std::int64_t chunk = 64) {
  const Ids ids = text(n);
  auto request = test::trace_request(
      "llama", policy, Ids(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(prompt)));
  request.decode.assign(ids.begin() + static_cast<std::ptrdiff_t>(prompt), ids.end());
  request.kivi = kivi;
  request.chunk = chunk;
  return run_trace(request);
}

// Eviction of every kind: by position, scattered over the cache, after the prompt.
const char* const kPolicies[] = {
    "full",
    "sink2+18",
    "sink2+18:evict=before,positions=original",
    "h2o:heavy=10,recent=10",
    "knorm:capacity=20,timing=decode",
    "knorm:capacity=20",
    "tova:capacity=20",
    "snapkv:capacity=20,window=4",
    "adakv:scorer=knorm,capacity=20",
    "kvzip:capacity=20",
    "random:capacity=20",
    "random:capacity=20,positions=cache_index",
};

double mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Two layers, two KV heads.
TEST_CASE("rows are quantised while decoding, and the losses show it") {
  const Trace plain = run("full", {}, 8);
  const Trace two = run("full", kTwoBits, 8);
  const Trace four = run("full", KiviOptions{4, 4, 8}, 8);
  CHECK(plain.quantised_rows == 0);
  CHECK(two.quantised_rows == 2 * 2 * (60 / 8 * 8 + 60 - 8));
  const double gap2 = test::largest_difference(two.nll, plain.nll);
  const double gap4 = test::largest_difference(four.nll, plain.nll);
  CHECK(gap2 > 1e-3);
  CHECK(gap4 > 1e-5);
  CHECK(gap4 < gap2);
  CHECK(std::abs(mean(two.nll) - mean(plain.nll)) < 0.5);
  CHECK(two.warnings.empty());
}

TEST_CASE("a prompt attends to itself in full precision; its first successor does not") {
  const Trace plain = run("full", {}, 30);
  const Trace kivi = run("full", kTwoBits, 30);
  for (std::size_t i = 0; i < 30; ++i) CHECK(kivi.nll[i] == plain.nll[i]);
  CHECK(std::abs(kivi.nll[30] - plain.nll[30]) > 1e-6);
}

TEST_CASE("chunks change nothing, in the prompt or after it") {
  for (const char* policy : kPolicies) {
    CAPTURE(policy);
    const Trace whole = run(policy, kTwoBits, 30);
    CHECK(whole.quantised_rows > 0);
    for (const std::int64_t chunk : {1, 5, 8, 13}) {
      CAPTURE(chunk);
      const Trace trace = run(policy, kTwoBits, 30, 60, chunk);
      CHECK(trace.kept == whole.kept);
      CHECK(trace.kv_bytes_live == whole.kv_bytes_live);
      CHECK(test::largest_difference(trace.nll, whole.nll) < 2e-4);
    }
  }
}

TEST_CASE("a residual as long as the text is plain storage, and says that nothing was quantised") {
  for (const char* policy : kPolicies) {
    CAPTURE(policy);
    const Trace plain = run(policy, {}, 30);
    const Trace kivi = run(policy, KiviOptions{2, 4, 64}, 30);
    CHECK(test::largest_difference(kivi.nll, plain.nll) < 1e-5);
    CHECK(kivi.kept == plain.kept);
    CHECK(kivi.kv_bytes_live == plain.kv_bytes_live);
    CHECK(kivi.quantised_rows == 0);
    REQUIRE(kivi.warnings.size() == 1);
    CHECK(test::contains(kivi.warnings[0], "quantised nothing"));
  }
}

// Keeps the newest; remembers the keys it was shown in the first layer.
class Onlooker final : public EvictionPolicy {
 public:
  Onlooker() { traits_.capacity = 33; }
  const PolicyTraits& traits() const override { return traits_; }
  void select(LayerView& view, KeepList& keep) override {
    for (std::size_t head = 0; head < keep.size(); ++head) {
      const auto kv_head = static_cast<std::int64_t>(head);
      if (view.layer == 0 && kv_head == 0) {
        const auto keys = view.keys(0);
        const auto values = view.values(0);
        keys_.assign(keys.begin(), keys.end());
        values_.assign(values.begin(), values.end());
      }
      for (std::int64_t slot = 1; slot < view.length(kv_head); ++slot) {
        keep[head].push_back(static_cast<std::int32_t>(slot));
      }
    }
  }
  std::vector<float> keys_, values_;  // [34, 4]

 private:
  PolicyTraits traits_;
};

// The first layer's keys and values follow from the tokens alone, so that both runs store the same.
TEST_CASE("policies see keys and values as attention does") {
  const auto backend = make_backend("cpu", 1);
  const Model model = Model::load(test::checkpoint("llama").string(), *backend, DType::f32);
  const auto look = [&](std::optional<KiviOptions> kivi) {
    Onlooker policy;
    Session session(model, *backend, policy, {.kivi = kivi});
    session.begin(34);
    session.feed(text(34));
    return std::pair(policy.keys_, policy.values_);
  };
  const auto [keys, values] = look({});
  const auto [seen_keys, seen_values] = look(KiviOptions{2, 4, 16});
  REQUIRE(keys.size() == 34 * 4);
  REQUIRE(seen_keys.size() == keys.size());
  REQUIRE(seen_values.size() == keys.size());
  const auto differ = [](const std::vector<float>& a, const std::vector<float>& b,
                         std::size_t first, std::size_t last) {
    std::size_t n = 0;
    for (std::size_t i = first * 4; i < last * 4; ++i) n += a[i] != b[i] ? 1 : 0;
    return n;
  };
  // When the 34th token is selected about, 33 had been seen to: 32 keys and 17 values quantised.
  CHECK(differ(keys, seen_keys, 0, 32) > 32);
  CHECK(differ(keys, seen_keys, 32, 34) == 0);
  CHECK(differ(values, seen_values, 0, 17) > 17);
  CHECK(differ(values, seen_values, 17, 34) == 0);
}

RunRecord score(std::optional<KiviOptions> kivi, const std::string& policy,
                const std::string& protocol, std::int64_t chunk) {
  PplRequest request;
  request.model = test::checkpoint("llama").string();
  request.tokens.ids = {text(80)};
  request.policies = {policy};
  request.protocol = protocol;
  request.protocol_options.prompt = protocol == "continue" ? 40 : 0;
  request.protocol_options.score = protocol == "continue" ? 40 : 0;
  request.chunk = chunk;
  request.kivi = kivi;
  TaskContext context;
  context.quiet = true;
  return run_ppl(request, context).front();
}

TEST_CASE("records say how the cache was stored and how much of it was quantised") {
  for (const char* protocol : {"stream", "continue"}) {
    CAPTURE(protocol);
    const RunRecord record = score(kTwoBits, "full", protocol, 64);
    REQUIRE(record.ok);
    const json kv = json::parse(record.config_json)["kv"];
    CHECK(kv["kind"] == "kivi");
    CHECK(kv["bits"] == 2);
    CHECK(kv["group"] == 4);
    CHECK(kv["residual"] == 8);
    CHECK(find_metric(record, "quantised_rows")->value == 2 * 2 * (79 / 8 * 8 + 79 - 8));
    CHECK(find_metric(record, "kv_ratio_to_full")->value.value() < 0.7);
    CHECK(record.warnings.empty());
    const RunRecord by_threes = score(kTwoBits, "full", protocol, 3);
    CHECK(std::abs(*find_metric(by_threes, "nll_sum")->value -
                   *find_metric(record, "nll_sum")->value) < 1e-3);
    const RunRecord plain = score({}, "full", protocol, 64);
    CHECK(find_metric(plain, "quantised_rows") == nullptr);
    CHECK(plain.config_hash != record.config_hash);
    const RunRecord idle = score(KiviOptions{2, 4, 128}, "full", protocol, 64);
    CHECK(find_metric(idle, "quantised_rows")->value == 0);
    REQUIRE(idle.warnings.size() == 1);
    CHECK(test::contains(idle.warnings[0], "quantised nothing"));
  }
}

TEST_CASE("a group that does not divide the model's heads") {
  CHECK(test::contains(test::error_text<ConfigError>([] {
                         score(KiviOptions{2, 8, 8}, "full", "stream", 8);
                       }),
                       "head_dim 4 is not a multiple of group=8"));
}

}  // namespace
}  // namespace kvbench
