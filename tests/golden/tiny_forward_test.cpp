// Every tiny checkpoint through config, weights and forward pass against transformers; one run
// against any cut into chunks.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.hpp"
#include "tests/golden/tiny_run.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::Ids;

std::int32_t argmax(const std::vector<float>& logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void check_variant(const std::string& name, const json& variant, const Ids& ids) {
  const Trace trace = run_trace(test::trace_request(name, "full", ids));
  const double sum = std::accumulate(trace.nll.begin(), trace.nll.end(), 0.0);
  CHECK(trace.nll.size() == ids.size() - 1);
  CHECK(std::abs(sum - variant["sum_nll_11"].get<double>()) < 1e-4);
  CHECK(test::largest_difference(trace.last_logits,
                                 variant["last_logits_first8"].get<std::vector<double>>()) < 1e-4);
  // The most likely next token after each of them: a shorter prompt shows each in turn. Under
  // dynamic scaling a shorter prompt is another model, so there only the last is compared.
  const bool dynamic = name.find("dynamic") != std::string::npos;
  const auto best = variant["argmax"].get<Ids>();
  for (std::size_t n = dynamic ? ids.size() : 1; n <= ids.size(); ++n) {
    CAPTURE(n);
    const Ids prompt(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
    CHECK(argmax(run_trace(test::trace_request(name, "full", prompt)).last_logits) == best[n - 1]);
  }
}

TEST_CASE("tiny checkpoints: losses, most likely tokens and logits of the reference") {
  const json reference = test::read_golden("tiny/expected.json");
  const auto ids = reference["input_ids"].get<Ids>();
  int checked = 0;
  for (const auto& [name, variant] : reference["variants"].items()) {
    CAPTURE(name);
    ++checked;
    if (!variant.contains("error_names")) {
      check_variant(name, variant, ids);
      continue;
    }
    const std::string message =
        test::error_text<DataError>([&] { run_trace(test::trace_request(name, "full", ids)); });
    CAPTURE(message);
    CHECK(test::contains(message, variant["error_names"].get<std::string>()));
  }
  CHECK(checked >= 36);
}

// Keys that were rotated under another base would show here.
TEST_CASE("dynamic scaling: a prompt with decoding after it equals one pass") {
  const json reference = test::read_golden("tiny/expected.json");
  const auto ids = reference["input_ids"].get<Ids>();
  auto request =
      test::trace_request("llama_dynamic_long", "full", Ids(ids.begin(), ids.begin() + 8));
  request.decode = Ids(ids.begin() + 8, ids.end());
  const Trace trace = run_trace(request);
  CHECK(std::abs(std::accumulate(trace.nll.begin(), trace.nll.end(), 0.0) - 54.44467) < 1e-4);
}

TEST_CASE("one shot and chunks of any size agree at every length") {
  const Ids all = test::ids_of("P40");
  for (const std::string model : {"llama", "qwen3", "mistral_w4", "llama_headdim8"}) {
    for (const std::size_t n : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40}) {
      auto request = test::trace_request(
          model, "full", Ids(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)));
      const Trace whole = run_trace(request);
      const std::vector<double> expected(whole.last_logits.begin(), whole.last_logits.end());
      for (const std::int64_t chunk : {1, 7, 8}) {
        CAPTURE(model);
        CAPTURE(n);
        CAPTURE(chunk);
        request.chunk = chunk;
        const Trace cut = run_trace(request);
        CHECK(test::largest_difference(cut.last_logits, expected) < 1e-5);
        CHECK(test::largest_difference(cut.nll, whole.nll) < 1e-5);
      }
    }
  }
  const Trace forty = run_trace(test::trace_request("llama", "full", all));
  CHECK(test::largest_difference(
            forty.last_logits,
            test::eviction_reference()["full_after_P40"].get<std::vector<double>>()) < 1e-4);
}

TEST_CASE("forced tokens after a prompt are the same text as a longer prompt") {
  auto request = test::trace_request("llama", "full", test::ids_of("P20"));
  request.decode = test::ids_of("D6");
  CHECK(test::largest_difference(
            run_trace(request).last_logits,
            test::eviction_reference()["full_after_P20_D6"].get<std::vector<double>>()) < 1e-4);
}

}  // namespace
}  // namespace kvbench
