// Perplexities of the tiny checkpoint: what counts as scored, how windows and documents are cut,
// and that eviction acts while the text is scored.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "core/error.hpp"
#include "tests/golden/tiny_run.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::Ids;

PplRequest request_for(const std::vector<Ids>& documents, const std::string& policy = "full") {
  PplRequest request;
  request.model = test::checkpoint("llama").string();
  request.tokens.ids = documents;
  request.policies = {policy};
  return request;
}

RunRecord run_one(const PplRequest& request) {
  TaskContext context;
  context.quiet = true;
  const auto records = run_ppl(request, context);
  REQUIRE(records.size() == 1);
  return records.front();
}

double metric(const RunRecord& record, const std::string& name) {
  const Metric* found = find_metric(record, name);
  REQUIRE(found != nullptr);
  return found->value.value_or(std::nan(""));
}

void check_ppl(const RunRecord& record, int scored, double ppl) {
  REQUIRE(record.ok);
  CHECK(metric(record, "tokens_scored") == scored);
  CHECK(std::abs(metric(record, "ppl") / ppl - 1.0) < 2e-6);
}

TEST_CASE("every token but the first is scored") {
  const RunRecord record = run_one(request_for({test::ids_of("P40")}));
  check_ppl(record, 39, 96.732252);
  CHECK(std::abs(metric(record, "nll_sum") - 178.305928) < 1e-4);
  const Trace trace = run_trace(test::trace_request("llama", "full", test::ids_of("P40")));
  CHECK(test::largest_difference(
            trace.nll, test::eviction_reference()["first5_nll"].get<std::vector<double>>()) < 1e-5);
}

TEST_CASE("eviction acts on every prediction, whatever the chunk") {
  struct Case {
    const char* policy;
    double ppl;
  };
  for (const Case& c : {Case{"window8:evict=before", 84.555414}, Case{"recompute8", 88.755331},
                        Case{"sink2+6:evict=before", 83.906421}}) {
    for (const std::int64_t chunk : {1, 5, 8, 64}) {
      CAPTURE(c.policy);
      CAPTURE(chunk);
      PplRequest request = request_for({test::ids_of("P40")}, c.policy);
      request.chunk = chunk;
      const RunRecord record = run_one(request);
      check_ppl(record, 39, c.ppl);
      CHECK(metric(record, "evictions") > 0);
      CHECK(record.warnings.empty());
    }
  }
}

TEST_CASE("a policy that never evicts carries a warning, and is an error when strict") {
  PplRequest request = request_for({test::ids_of("P40")}, "window64");
  const RunRecord record = run_one(request);
  check_ppl(record, 39, 96.732252);
  REQUIRE(record.warnings.size() == 1);
  CHECK(test::contains(record.warnings[0], "evicted nothing"));
  request.strict = true;
  const RunRecord strict = run_one(request);
  CHECK_FALSE(strict.ok);
  CHECK(strict.exit_code == 2);
  request.policies = {"full"};
  CHECK(run_one(request).ok);
}

TEST_CASE("windows: each token once") {
  PplRequest request = request_for({test::ids_of("P40")});
  request.protocol = "strided";
  request.protocol_options.window = 16;
  request.protocol_options.stride = 8;
  check_ppl(run_one(request), 39, 82.723697);
  request.protocol_options.stride = 0;
  check_ppl(run_one(request), 37, 113.197539);
}

TEST_CASE("rolling windows score the first token, too") {
  PplRequest request = request_for({test::ids_of("P40")});
  request.protocol = "rolling";
  request.protocol_options.window = 16;
  request.protocol_options.prefix_id = 1;
  check_ppl(run_one(request), 40, 104.437120);
}

TEST_CASE("llama.cpp's second halves, with and without its first token") {
  PplRequest request = request_for({test::ids_of("P40")});
  request.protocol = "llamacpp";
  request.protocol_options.window = 16;
  check_ppl(run_one(request), 14, 133.233743);
  request.protocol_options.prefix_id = 1;
  request.protocol_options.force_prefix = true;
  check_ppl(run_one(request), 14, 148.166424);
}

TEST_CASE("documents start with an empty cache, in any order; carried over is another number") {
  const Ids all = test::ids_of("P40");
  const Ids first(all.begin(), all.begin() + 12);
  const Ids second(all.begin() + 12, all.end());
  const RunRecord record = run_one(request_for({first, second}));
  check_ppl(record, 38, 116.488677);
  CHECK(std::abs(metric(record, "nll_sum") - 180.796175) < 1e-4);
  check_ppl(run_one(request_for({second, first})), 38, 116.488677);
  PplRequest carry = request_for({first, second});
  carry.documents = DocumentMode::carry;
  check_ppl(run_one(carry), 38, 104.052739);
  carry.chunk = 5;
  check_ppl(run_one(carry), 38, 104.052739);
}

TEST_CASE("documents of no or one token are skipped and listed") {
  const Ids all = test::ids_of("P40");
  const Ids twelve(all.begin(), all.begin() + 12);
  for (const DocumentMode mode : {DocumentMode::reset, DocumentMode::carry}) {
    PplRequest request = request_for({{}, {1}, twelve});
    request.documents = mode;
    const RunRecord record = run_one(request);
    REQUIRE(record.ok);
    CHECK(metric(record, "tokens_scored") == 11);
    CHECK(metric(record, "documents_skipped") == 2);
  }
  const RunRecord record = run_one(request_for({{}, {1}, twelve}));
  const json documents = json::parse(record.details_json)["documents"];
  CHECK(documents[0]["skipped"] == "too short");
  CHECK(documents[1]["skipped"] == "too short");
  CHECK(documents[2]["skipped"].is_null());
  const RunRecord nothing = run_one(request_for({{}, {1}}));
  CHECK_FALSE(nothing.ok);
  CHECK(nothing.exit_code == 3);
  CHECK(test::contains(nothing.reason, "nothing to score"));
}

TEST_CASE("logits that are not finite are an error, never a number") {
  for (const std::uint32_t bits : {0x7FC00000u, 0x7F800000u, 0x7F000000u}) {
    test::TempDir directory;
    test::write_config(directory, test::tiny_config("llama"));
    auto tensors = test::tiny_tensors("llama");
    for (test::OwnedTensor& tensor : tensors) {
      if (tensor.name != "model.layers.1.mlp.down_proj.weight") continue;
      for (std::size_t i = 0; i < tensor.bytes.size(); i += 4) {
        std::memcpy(tensor.bytes.data() + i, &bits, sizeof(bits));
      }
    }
    test::write_tensors(directory, tensors);
    CAPTURE(bits);
    PplRequest request = request_for({test::ids_of("P40")});
    request.model = directory.path().string();
    const RunRecord record = run_one(request);
    CHECK_FALSE(record.ok);
    CHECK(record.exit_code == 3);
    CHECK(test::contains(record.reason, "finite"));
    CHECK(record.metrics.size() == 1);
    CHECK_FALSE(record.metrics[0].value.has_value());
  }
}

}  // namespace
}  // namespace kvbench
