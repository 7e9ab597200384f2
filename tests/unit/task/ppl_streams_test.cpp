// `ppl` with segments side by side: every number of a record is that of one segment at a time.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "task/ppl.hpp"
#include "task/ppl_scorer.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using nlohmann::json;

// Seven documents; one is too short to score.
PplRequest request_of(const std::vector<std::string>& policies) {
  PplRequest request;
  request.model = test::tiny_model("llama").string();
  request.policies = policies;
  request.threads = 2;
  request.chunk = 16;
  Rng rng(9);
  for (const std::size_t length : {40, 13, 1, 29, 51, 2, 33}) {
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i < length; ++i) {
      ids.push_back(static_cast<std::int32_t>(rng.below(32)));
    }
    request.tokens.ids.push_back(std::move(ids));
  }
  return request;
}

std::vector<RunRecord> run(PplRequest request, std::int64_t streams) {
  request.streams = streams;
  TaskContext context;
  context.quiet = true;
  return run_ppl(request, context);
}

double value_of(const RunRecord& record, const char* metric) {
  const Metric* found = find_metric(record, metric);
  REQUIRE_MESSAGE(found != nullptr, metric);
  return found->value.value();
}

void check_same(const RunRecord& streams, const RunRecord& alone) {
  CAPTURE(alone.policy);
  REQUIRE(streams.ok);
  CHECK(streams.config_hash == alone.config_hash);
  for (const char* exact : {"tokens_scored", "evictions", "ties_at_cut", "documents_scored",
                            "documents_skipped", "kv_bytes_live"}) {
    CAPTURE(exact);
    CHECK(value_of(streams, exact) == value_of(alone, exact));
  }
  // Streams share a chunk, so that no more tokens of one are held before it evicts.
  CHECK(value_of(streams, "kv_bytes_peak") <= value_of(alone, "kv_bytes_peak"));
  for (const char* close : {"nll_mean", "ppl_second_half", "kv_ratio_to_full"}) {
    CAPTURE(close);
    CHECK(std::abs(value_of(streams, close) - value_of(alone, close)) < 5e-4);
  }
  const json found = json::parse(streams.details_json);
  const json expected = json::parse(alone.details_json);
  CHECK(found["kv_rows"] == expected["kv_rows"]);
  REQUIRE(found["curve"].size() == expected["curve"].size());
  for (std::size_t i = 0; i < expected["curve"].size(); ++i) {
    CHECK(found["curve"][i]["tokens"] == expected["curve"][i]["tokens"]);
    if (expected["curve"][i]["nll_mean"].is_null()) continue;
    CHECK(std::abs(found["curve"][i]["nll_mean"].get<double>() -
                   expected["curve"][i]["nll_mean"].get<double>()) < 5e-4);
  }
  for (std::size_t i = 0; i < expected["documents"].size(); ++i) {
    CHECK(found["documents"][i]["tokens_scored"] == expected["documents"][i]["tokens_scored"]);
  }
}

void check_request(const PplRequest& request) {
  const auto alone = run(request, 1);
  for (const std::int64_t streams : {2, 4, 32}) {
    const auto side_by_side = run(request, streams);
    REQUIRE(side_by_side.size() == alone.size());
    for (std::size_t i = 0; i < alone.size(); ++i) check_same(side_by_side[i], alone[i]);
  }
}

TEST_CASE("ppl in streams: documents") {
  check_request(request_of({"full", "sink2+6", "sink2+6:evict=before", "h2o:heavy=4,recent=4",
                            "tova:capacity=8", "window8"}));
}

TEST_CASE("ppl in streams: prompts and continuations") {
  PplRequest request = request_of({"full", "snapkv:capacity=6,window=3", "tova:capacity=8"});
  request.protocol = "continue";
  request.protocol_options.prompt = 9;
  request.protocol_options.score = 5;
  check_request(request);
}

TEST_CASE("ppl in streams: windows that overlap, with tokens that are fed and not scored") {
  PplRequest request = request_of({"full", "h2o:heavy=4,recent=4"});
  request.protocol = "strided";
  request.protocol_options.window = 12;
  request.protocol_options.stride = 5;
  check_request(request);
}

TEST_CASE("ppl in streams: the record says how many, and whether there were enough segments") {
  const auto of_five = run(request_of({"h2o:heavy=4,recent=4"}), 5);
  CHECK(of_five[0].streams == 5);
  const double mean = value_of(of_five[0], "streams_mean");
  CHECK(mean > 2.0);
  CHECK(mean < 5.0);
  CHECK(of_five[0].warnings.empty());
  const auto of_nine = run(request_of({"h2o:heavy=4,recent=4"}), 9);
  REQUIRE(of_nine[0].warnings.size() == 1);
  CHECK(test::contains(of_nine[0].warnings[0], "streams=9, but the text has 6 segments"));
  CHECK(find_metric(run(request_of({"full"}), 1)[0], "streams_mean") == nullptr);
}

TEST_CASE("ppl in streams: what has nothing to run side by side is refused") {
  PplRequest request = request_of({"full"});
  request.documents = DocumentMode::carry;
  CHECK(test::contains(test::error_text<ConfigError>([&] { run(request, 2); }),
                       "--streams 2: under --documents carry the text is a single sequence"));
  CHECK(test::contains(test::error_text<ConfigError>([&] {
                         run(request_of({"full", "recompute8"}), 2);
                       }),
                       "policy recompute8 computes a whole window for each token"));
}

TEST_CASE("ppl in streams: losses reach the meter in the order of the text") {
  PerplexityMeter meter;
  meter.begin_document("one");
  OrderedLosses losses(meter);
  TextSegment first{{{1, 2, 3}}, 0, 0};
  TextSegment second{{{4, 5, 6}, 0, 1, 3}, 0, 1};
  losses.begin(first);
  losses.begin(second);
  losses.add(second, 1, std::vector<double>{0.5});
  CHECK(meter.tokens_scored() == 0);
  losses.add(first, 1, std::vector<double>{0.25, 0.125});
  CHECK(meter.tokens_scored() == 2);
  losses.add(second, 2, std::vector<double>{1.0});
  losses.end(second);
  CHECK(meter.tokens_scored() == 2);
  losses.end(first);
  CHECK(meter.tokens_scored() == 4);
  const auto curve = meter.result().curve;
  CHECK(curve[1].nll_mean == 0.25);
  CHECK(curve[4].nll_mean == 0.5);
  CHECK(curve[5].nll_mean == 1.0);
}

}  // namespace
}  // namespace kvbench
