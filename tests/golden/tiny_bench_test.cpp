// `bench` on a tiny checkpoint: what is counted must be right, whatever the times are.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "backend/profiling_backend.hpp"
#include "backend/registry.hpp"
#include "core/error.hpp"
#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "task/bench.hpp"
#include "tests/golden/tiny_run.hpp"

namespace kvbench {
namespace {

TEST_CASE("bench: one record per policy, with sizes that follow from the cache") {
  BenchRequest request;
  request.model = test::checkpoint("llama").string();
  request.policies = {"full", "window8", "snapkv:capacity=10,window=4"};
  request.depths = {12, 20};
  request.steps = 4;
  request.repeats = 2;
  TaskContext context;
  context.quiet = true;
  const auto records = run_bench(request, context);
  REQUIRE(records.size() == 3);
  const auto value = [&](std::size_t record, const char* metric) {
    const Metric* found = find_metric(records[record], metric);
    REQUIRE(found != nullptr);
    return found->value.value();
  };
  const std::int64_t row = context.load(request).model->config().kv_bytes_per_token(DType::f32);
  CHECK(value(0, "kv_bytes_live") == static_cast<double>(24 * row));
  CHECK(value(1, "kv_bytes_live") == static_cast<double>(8 * row));
  CHECK(value(2, "kv_bytes_live") == static_cast<double>(14 * row));
  CHECK(value(0, "decode_speedup") == 1.0);
  for (std::size_t i = 0; i < records.size(); ++i) {
    CHECK(records[i].ok);
    CHECK(value(i, "decode_ms_p50") <= value(i, "decode_ms_p95"));
    CHECK(value(i, "prefill_tokens_per_s") > 0);
    CHECK(value(i, "decode_gb_per_s") > 0);
    const auto details = nlohmann::json::parse(records[i].details_json);
    CHECK(details["depths"].size() == 2);
    double share = 0.0;
    for (const auto& op : details["decode_profile"]) share += op["share"].get<double>();
    CHECK(std::abs(share - 1.0) < 1e-9);
  }
  CHECK(find_metric(records[0], "decode_tokens_per_s")->n == 8);
}

TEST_CASE("bench: streams, each with a cache of its own") {
  BenchRequest request;
  request.model = test::checkpoint("llama").string();
  request.policies = {"full", "h2o:heavy=4,recent=4"};
  request.depths = {12};
  request.steps = 5;
  request.repeats = 2;
  request.threads = 2;
  request.streams = 3;
  TaskContext context;
  context.quiet = true;
  const auto records = run_bench(request, context);
  REQUIRE(records.size() == 2);
  const std::int64_t row = context.load(request).model->config().kv_bytes_per_token(DType::f32);
  CHECK(find_metric(records[0], "kv_bytes_live")->value == static_cast<double>(3 * 17 * row));
  CHECK(find_metric(records[1], "kv_bytes_live")->value == static_cast<double>(3 * 8 * row));
  CHECK(find_metric(records[0], "decode_tokens_per_s")->n == 10);
  const double milliseconds = find_metric(records[0], "decode_ms_p50")->value.value();
  CHECK(find_metric(records[0], "decode_tokens_per_s")->value.value() ==
        doctest::Approx(3000.0 / milliseconds));
  CHECK(records[0].streams == 3);
  const ModelConfig& config = context.load(request).model->config();
  const auto details = nlohmann::json::parse(records[0].details_json);
  for (const auto& op : details.at("decode_profile")) {
    if (op["op"] == "linear") CHECK(op["calls"] == 5 * (config.n_layers * 4 + 1));
    if (op["op"] == "attention") CHECK(op["calls"] == 3 * 5 * config.n_layers);
  }
  request.streams = 1;
  const auto alone = run_bench(request, context);
  CHECK(alone[0].config_hash != records[0].config_hash);  // speed is what is compared
  request.streams = 2;
  request.policies = {"recompute8"};
  CHECK_THROWS_AS(check_bench(request), ConfigError);
}

TEST_CASE("profile: operations counted, results those of the backend itself") {
  const auto backend = make_backend("cpu", 1);
  const Model model = Model::load(test::checkpoint("llama"), *backend, DType::f32);
  const auto ids = test::ids_of("P20");
  const auto losses = [&](Backend& used) {
    auto configured = make_policy("full");
    Session session(model, used, *configured.policy, {.chunk = 8});
    session.begin(static_cast<std::int64_t>(ids.size()));
    std::vector<double> nll(ids.size() - 1);
    session.feed(std::span(ids).first(nll.size()), std::span(ids).subspan(1), nll);
    return nll;
  };
  ProfilingBackend profiling(*backend);
  CHECK(losses(profiling) == losses(*backend));
  const auto entry = [&](std::string_view name) {
    for (const OpProfile& op : profiling.profile()) {
      if (op.name == name) return op;
    }
    return OpProfile{"missing"};
  };
  const ModelConfig& config = model.config();
  const std::int64_t chunks = 3;
  CHECK(entry("attention").calls == chunks * config.n_layers);
  CHECK(entry("linear").calls == chunks * config.n_layers * 4);
  const auto hidden = static_cast<double>(config.hidden_size);
  const double head = 2.0 * hidden * static_cast<double>(config.vocab_size);
  CHECK(entry("nll").flops == head * static_cast<double>(ids.size() - 1));
  profiling.clear();
  CHECK(entry("nll").calls == 0);
}

}  // namespace
}  // namespace kvbench
