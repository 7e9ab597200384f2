// Tiny checkpoints of every family that tiny/ has none of: one pass, token by token, greedy
// decoding and evicting policies against the reference; and the two ways of evicting against
// each other.
#include <doctest/doctest.h>

#include <cmath>

#include "core/error.hpp"
#include "tests/golden/tiny_families.hpp"
#include "tests/golden/tiny_run.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::Ids;

constexpr double kTolerance = 2e-5;

const json& reference() {
  static const json document = test::read_golden("families/expected.json");
  return document;
}

Ids input_ids() {
  return reference()["input_ids"].get<Ids>();
}

Trace run(const std::filesystem::path& model, const std::string& policy, std::int64_t chunk) {
  TraceRequest request;
  request.model = model.string();
  request.policy = policy;
  request.ids = input_ids();
  request.chunk = chunk;
  return run_trace(request);
}

std::vector<double> as_doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("families: losses, logits and greedy decoding of the reference") {
  REQUIRE(reference()["checkpoints"].size() >= 15);
  for (const auto& [name, row] : reference()["checkpoints"].items()) {
    CAPTURE(name);
    for (const std::int64_t chunk : {1, 7, 64}) {
      CAPTURE(chunk);
      const Trace trace = run(test::family_folder(name), "full", chunk);
      CHECK(trace.nll.size() == input_ids().size() - 1);
      CHECK(test::largest_difference(trace.nll, row["nll"].get<std::vector<double>>()) <
            kTolerance);
      CHECK(test::largest_difference(trace.last_logits,
                                     row["last_logits"].get<std::vector<double>>()) < kTolerance);
    }
    TraceRequest request;
    request.model = test::family_folder(name).string();
    request.ids = input_ids();
    request.greedy = 6;
    request.ignore_stop_ids = true;
    CHECK(run_trace(request).generated == row["greedy"].get<Ids>());
  }
}

// The model's own windows and the policy's pattern both hold.
TEST_CASE("families: sinks and recent entries at original positions, as the reference masks them") {
  int checked = 0;
  for (const auto& [name, row] : reference()["checkpoints"].items()) {
    if (!row.contains("pattern_nll")) continue;
    CAPTURE(name);
    ++checked;
    for (const std::int64_t chunk : {1, 5, 64}) {
      CAPTURE(chunk);
      const Trace trace =
          run(test::family_folder(name), "sink:sinks=2,recent=6,positions=original", chunk);
      CHECK(trace.evicted > 0);
      CHECK(test::largest_difference(trace.nll, row["pattern_nll"].get<std::vector<double>>()) <
            kTolerance);
    }
  }
  CHECK(checked >= 12);
}

TEST_CASE("families: evicting token by token equals chunks, under both kinds of positions") {
  for (const auto& model : test::family_checkpoints()) {
    CAPTURE(model.filename().string());
    for (const std::string policy :
         {"sink2+6", "sink2+6:evict=before", "window7", "sink:sinks=1,recent=3,positions=original",
          "window:capacity=5,positions=original"}) {
      const bool original = policy.find("original") != std::string::npos;
      if (test::has_position_table(model) && !original) continue;
      CAPTURE(policy);
      const Trace single = run(model, policy, 1);
      CHECK(single.evicted > 0);
      for (const std::int64_t chunk : {3, 64}) {
        CAPTURE(chunk);
        const Trace chunked = run(model, policy, chunk);
        CHECK(chunked.evicted == single.evicted);
        CHECK(chunked.kept == single.kept);
        CHECK(test::largest_difference(chunked.nll, single.nll) < kTolerance);
      }
    }
  }
}

// Only relative distances count, so a plain window is the same under both kinds of positions. The
// frequencies of longrope and the bias of ALiBi included.
TEST_CASE("families: a window at places in the cache equals one at original positions") {
  for (const auto& model : test::family_checkpoints()) {
    if (test::has_position_table(model)) continue;
    CAPTURE(model.filename().string());
    const Trace by_place = run(model, "window7", 1);
    const Trace by_text = run(model, "window:capacity=7,positions=original", 1);
    CHECK(test::largest_difference(by_place.nll, by_text.nll) < kTolerance);
  }
}

// The two must not be the same by mistake. They are where every layer slides past the sinks, or
// only those do not that rotate nothing.
TEST_CASE("families: sinks at places in the cache differ from sinks at original positions") {
  for (const auto& model : test::family_checkpoints()) {
    const bool unseen =
        model == test::family_folder("phi3") || model == test::family_folder("mixtral") ||
        model == test::family_folder("cohere2") || model == test::tiny_model("mistral_w4");
    if (test::has_position_table(model) || unseen) continue;
    CAPTURE(model.filename().string());
    const Trace by_place = run(model, "sink2+6", 64);
    const Trace by_text = run(model, "sink:sinks=2,recent=6,positions=original", 64);
    const double difference = test::largest_difference(by_place.nll, by_text.nll);
    CHECK(difference > 1e-3);
  }
}

TEST_CASE("families: policies that look at attention run on all of them") {
  const Ids ids = input_ids();
  for (const auto& model : test::family_checkpoints()) {
    CAPTURE(model.filename().string());
    for (const std::string policy : {"h2o:heavy=4,recent=4", "tova:capacity=8"}) {
      CAPTURE(policy);
      TraceRequest request;
      request.model = model.string();
      request.policy = policy;
      request.ids.assign(ids.begin(), ids.begin() + 12);
      request.decode.assign(ids.begin() + 12, ids.end());
      const Trace trace = run_trace(request);
      CHECK(trace.evicted > 0);
      for (const double nll : trace.nll) CHECK(std::isfinite(nll));
    }
  }
}

// Eight bits of mantissa in the products and in the cache, small models: near, not equal.
TEST_CASE("families: bf16 stays near f32") {
  for (const auto& model : test::family_checkpoints()) {
    CAPTURE(model.filename().string());
    TraceRequest request;
    request.model = model.string();
    request.ids = input_ids();
    const Trace exact = run_trace(request);
    request.dtype = DType::bf16;
    request.kv_dtype = DType::bf16;
    const Trace rounded = run_trace(request);
    const double difference = test::largest_difference(rounded.nll, exact.nll);
    CHECK(difference > 0.0);
    CHECK(difference < 0.3);
  }
}

TEST_CASE("learned positions: no renumbering, and no more of them than the model has") {
  const std::string renumbered =
      test::error_text<ConfigError>([] { run(test::family_folder("gpt2"), "sink2+6", 64); });
  CHECK(test::contains(renumbered, "positions=original"));
  TraceRequest request;
  request.model = test::family_folder("gpt2").string();
  request.ids.assign(32, 5);
  CHECK(run_trace(request).nll.size() == 31);
  request.ids.push_back(5);
  const std::string beyond = test::error_text<ConfigError>([&] { run_trace(request); });
  CHECK(test::contains(beyond, "32"));
}

TEST_CASE("experts: one shot and chunks of any size agree at every length") {
  const Ids all = test::ids_of("P40");
  for (const std::string model : {"mixtral", "falcon_newdec", "mpt_h6", "neox_parallel"}) {
    for (const std::size_t n : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40}) {
      auto request = test::trace_request(
          model, "full", Ids(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)));
      const Trace whole = run_trace(request);
      for (const std::int64_t chunk : {1, 7, 8}) {
        CAPTURE(model);
        CAPTURE(n);
        CAPTURE(chunk);
        request.chunk = chunk;
        CHECK(test::largest_difference(run_trace(request).last_logits,
                                       as_doubles(whole.last_logits)) < 1e-5);
      }
    }
  }
}

}  // namespace kvbench
