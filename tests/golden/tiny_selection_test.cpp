// What the tiny checkpoint keeps and predicts under policies that select by attention: after the
// prompt, while decoding, for every chunk size, and at the edges of budgets and prompts.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.hpp"
#include "policy/registry.hpp"
#include "tests/golden/tiny_run.hpp"
#include "tests/support/error_text.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::Ids;

const json& reference() {
  static const json document = test::read_golden("eviction/selecting.json");
  return document;
}

// P20 as the prompt, then forced tokens.
Trace run(const std::string& policy, const Ids& decode, std::int64_t chunk = 512,
          const Ids& prompt = test::ids_of("P20"), const std::string& model = "llama") {
  auto request = test::trace_request(model, policy, prompt);
  request.decode = decode;
  request.chunk = chunk;
  return run_trace(request);
}

std::vector<double> as_doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// Prefill-time policies keep everything that is fed after the prompt.
KeptPlaces with_decoded(KeptPlaces kept, std::int32_t first, std::int32_t last) {
  for (auto& layer : kept) {
    for (Ids& places : layer) {
      for (std::int32_t place = first; place < last; ++place) places.push_back(place);
    }
  }
  return kept;
}

void check_case(const json& expected, std::int64_t chunk) {
  const Trace trace = run(expected["policy"].get<std::string>(), test::ids_of("D6"), chunk);
  const auto after_prompt = expected["kept_after_prompt"].get<KeptPlaces>();
  CHECK(trace.kept_after_prompt == after_prompt);
  const KeptPlaces at_end = expected["kept"].is_null() ? with_decoded(after_prompt, 20, 26)
                                                       : expected["kept"].get<KeptPlaces>();
  CHECK(trace.kept == at_end);
  CHECK(test::largest_difference(trace.last_logits,
                                 expected["last_logits"].get<std::vector<double>>()) < 1e-4);
}

TEST_CASE("kept entries and logits of every reference case, for several chunk sizes") {
  for (const json& expected : reference()["cases"]) {
    CAPTURE(expected["name"].get<std::string>());
    for (const std::int64_t chunk : {20, 7, 5, 1}) {
      CAPTURE(chunk);
      check_case(expected, chunk);
    }
  }
  CHECK(reference()["cases"].size() == 9);
}

TEST_CASE("the most likely token after each forced one") {
  for (const json& expected : reference()["cases"]) {
    if (expected["argmax_each"].is_null()) continue;
    CAPTURE(expected["name"].get<std::string>());
    const Ids d6 = test::ids_of("D6");
    for (std::size_t n = 1; n <= d6.size(); ++n) {
      const Ids first(d6.begin(), d6.begin() + static_cast<std::ptrdiff_t>(n));
      const auto logits = run(expected["policy"].get<std::string>(), first).last_logits;
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      CHECK(best == expected["argmax_each"][n - 1].get<std::int64_t>());
    }
  }
}

TEST_CASE("after eviction the next token's place is not the number of entries left") {
  const Trace trace = run("snapkv:window=4,capacity=10,kernel=5,pool=avg", test::ids_of("D6"));
  const auto wrong = reference()["snapkv_wrong_offset_is_rows"].get<std::vector<double>>();
  CHECK(test::largest_difference(trace.last_logits, wrong) > 0.1);
}

// What kvpress calls ObservedAttention divides each sum by the number of queries and has no recent
// part: another policy than h2o, under its own name.
TEST_CASE("observed_attention is not h2o") {
  const Trace observed = run("observed_attention:capacity=10", {});
  CHECK(observed.kept[0][0] == Ids{0, 1, 2, 3, 4, 5, 9, 10, 16, 17});
  CHECK(observed.kept[1][0] == Ids{0, 1, 2, 4, 6, 7, 11, 13, 15, 16});
  CHECK(observed.kept[1][1] == Ids{0, 1, 2, 3, 4, 6, 7, 8, 15, 16});
  const Trace h2o = run("h2o:heavy=6,recent=4", {});
  CHECK(h2o.kept[0][0] == Ids{0, 1, 2, 3, 4, 9, 16, 17, 18, 19});
}

TEST_CASE("the logits of the prompt's last token do not see its compression") {
  const Trace full = run("full", {});
  for (const char* policy : {"snapkv:window=4,capacity=10,kernel=5", "h2o:heavy=6,recent=4",
                             "tova:capacity=10", "adakv:capacity=10,window=4",
                             "criticalkv:capacity=10,window=4", "pyramidkv:capacity=10,window=4"}) {
    CAPTURE(policy);
    const Trace trace = run(policy, {});
    CHECK(trace.evicted > 0);
    CHECK(test::largest_difference(trace.last_logits, as_doubles(full.last_logits)) < 1e-6);
  }
}

TEST_CASE("prompts around the window and the capacity") {
  const Ids p20 = test::ids_of("P20");
  for (const char* policy : {"snapkv:window=4,capacity=10,kernel=5,pool=avg",
                             "adakv:capacity=10,window=4", "criticalkv:capacity=10,window=4",
                             "pyramidkv:capacity=10,window=4", "observed_attention:capacity=10"}) {
    CAPTURE(policy);
    for (const std::ptrdiff_t n : {1, 3, 4, 5, 9, 10}) {
      CAPTURE(n);
      const Ids prompt(p20.begin(), p20.begin() + n);
      const Trace trace = run(policy, {7, 3}, 512, prompt);
      CHECK(trace.evicted == 0);
      CHECK(trace.last_logits == run("full", {7, 3}, 512, prompt).last_logits);
    }
    const Trace eleven = run(policy, {}, 512, Ids(p20.begin(), p20.begin() + 11));
    std::size_t entries = 0;
    for (const auto& layer : eleven.kept) {
      for (const Ids& places : layer) entries += places.size();
    }
    CHECK(entries == 40);
  }
}

TEST_CASE("budgets that the window fills are refused") {
  const auto message = [&](const char* policy) {
    return test::error_text<ConfigError>([&] { run(policy, {}); });
  };
  CHECK(test::contains(message("snapkv:window=10,capacity=10"), "more than the 10 entries"));
  CHECK(test::contains(message("adakv:window=12,capacity=10"), "more than the 12 entries"));
  CHECK(test::contains(message("snapkv:window=9,capacity=10,evict=before"), "next token"));
  CHECK(test::contains(message("snapkv:window=4,keep=0.2"), "keep=0.2"));
  CHECK(test::contains(message("pyramidkv:window=4,capacity=5"), "no pyramid"));
  CHECK(test::contains(message("h2o:heavy=10,recent=0"), "recent"));
  CHECK(test::contains(message("snapkv:capacity=64,kernel=4"), "odd"));
  CHECK(test::contains(message("snapkv:window=4"), "exactly one of capacity"));
  CHECK(test::contains(message("snapkv:window=4,capacity=10,keep=0.5"), "exactly one of capacity"));
}

TEST_CASE("a share of the prompt is rounded down, but never to nothing") {
  const auto kept = [](const std::string& policy) { return run(policy, {}).kept[1][1].size(); };
  for (const char* name : {"knorm", "observed_attention", "tova", "random"}) {
    CAPTURE(name);
    CHECK(kept(std::string(name) + ":keep=0.001") == 1);
    CHECK(kept(std::string(name) + ":keep=0.29") == 5);
    CHECK(kept(std::string(name) + ":keep=0.35") == 7);
    CHECK(kept(std::string(name) + ":keep=1") == 20);
  }
  CHECK(kept("snapkv:window=4,keep=0.5") == 10);
  // floor(p * (20 - 4)) beside the window
  CHECK(kept("snapkv:variant=paper-p,p=0.5,window=4,kernel=5") == 12);
  CHECK(kept("snapkv:variant=paper-p,p=0.4,window=4,kernel=5") == 10);
  CHECK(kept("snapkv:variant=paper-p,p=0.01,window=4,kernel=5") == 5);
}

TEST_CASE("variants are presets; explicit keys win") {
  const auto value = [](const std::string& policy, const std::string& key) {
    for (const auto& [known, text] : make_policy(policy).options) {
      if (known == key) return text;
    }
    return std::string("absent");
  };
  const std::string kvpress = "snapkv:variant=kvpress,capacity=100";
  CHECK(value(kvpress, "window") == "64");
  CHECK(value(kvpress, "kernel") == "5");
  CHECK(value(kvpress, "pool") == "avg");
  CHECK(value(kvpress, "order") == "pool_first");
  CHECK(value(kvpress, "reduce") == "mean");
  CHECK(value(kvpress + ",window=16", "window") == "16");
  CHECK(value("snapkv:capacity=100", "window") == "32");
  CHECK(value("snapkv:capacity=100", "pool") == "max");
  CHECK(value("adakv:variant=kvpress,capacity=100", "window") == "64");
  CHECK(value("adakv:scorer=knorm,capacity=100", "window") == "absent");
}

TEST_CASE("policies over a scorer take its keys, and name the nearest for others") {
  const auto message = [](const char* policy) {
    return test::error_text<ConfigError>([&] { make_policy(policy); });
  };
  CHECK(test::contains(message("adakv:capacity=100,windw=3"), "did you mean window?"));
  CHECK(test::contains(message("adakv:scorer=knorm,capacity=100,window=3"), "window"));
  CHECK(test::contains(message("adakv:scorer=snapvk,capacity=100"), "did you mean snapkv?"));
  CHECK(test::contains(message("adakv:scorer=window,capacity=100"), "rates entries"));
  CHECK(test::contains(message("adakv:capacity=100,positions=cache_index"), "expected original"));
  CHECK(test::contains(message("adakv:variant=paper-p,capacity=100"), "paper-p"));
}

// Heads of a layer share its budget; no layer and no head goes beyond what it was given.
TEST_CASE("adakv divides a layer's entries over its heads") {
  const Trace trace = run("adakv:capacity=8,window=4,pool=none,alpha=0", test::ids_of("D6"));
  const Ids window{16, 17, 18, 19};
  bool unequal = false;
  for (const auto& layer : trace.kept_after_prompt) {
    CHECK(layer[0].size() + layer[1].size() == 16);
    unequal = unequal || layer[0].size() != layer[1].size();
    for (const Ids& places : layer) {
      CHECK(std::is_sorted(places.begin(), places.end()));
      CHECK(std::includes(places.begin(), places.end(), window.begin(), window.end()));
    }
  }
  CHECK(unequal);
  const Trace equal = run("adakv:capacity=10,window=4,kernel=5,pool=avg,alpha=1", {});
  const Trace snapkv = run("snapkv:capacity=10,window=4,kernel=5,pool=avg", {});
  CHECK(equal.kept == snapkv.kept);
}

TEST_CASE("pyramidkv gives lower layers more, at the same total") {
  const Trace trace = run("pyramidkv:capacity=10,window=4,kernel=5,pool=avg", {});
  // 6 beside the window on average: 11 and 1 with beta 20.
  for (const Ids& places : trace.kept[0]) CHECK(places.size() == 15);
  for (const Ids& places : trace.kept[1]) CHECK(places.size() == 5);
  CHECK(trace.kv_bytes_live == run("snapkv:capacity=10,window=4", {}).kv_bytes_live);
}

TEST_CASE("memory is that of the entries kept") {
  const Trace trace =
      run("snapkv:window=4,capacity=10", {}, 512, test::ids_of("P20"), "llama_1layer");
  CHECK(trace.kv_bytes_live == 2 * 2 * 10 * 4 * 4);
  CHECK(trace.kv_bytes_allocated == 2 * 2 * 10 * 4 * 4);
  CHECK(trace.kv_bytes_peak == 2 * 2 * 20 * 4 * 4);
}

// Entries per head, mean over the heads of all layers.
double mean_rows(const KeptPlaces& kept) {
  double rows = 0.0;
  for (const auto& layer : kept) {
    for (const Ids& places : layer) rows += static_cast<double>(places.size());
  }
  return rows / static_cast<double>(kept.size() * kept[0].size());
}

TEST_CASE("no policy keeps more than its budget, whenever it acts") {
  for (const std::string policy :
       {"random:capacity=10", "h2o:heavy=6,recent=4", "tova:capacity=10", "knorm:capacity=10",
        "observed_attention:capacity=10", "snapkv:window=4,capacity=10",
        "adakv:window=4,capacity=10", "criticalkv:window=4,capacity=10",
        "criticaladakv:window=4,capacity=10", "pyramidkv:window=4,capacity=10"}) {
    CAPTURE(policy);
    for (const char* timing : {"prefill", "decode", "chunked"}) {
      CAPTURE(timing);
      const Trace trace = run(policy + ",timing=" + timing, test::ids_of("D6"), 7);
      CHECK(mean_rows(trace.kept_after_prompt) == 10.0);
      CHECK(mean_rows(trace.kept) == (std::string(timing) == "decode" ? 10.0 : 16.0));
    }
    // Every third step: two more tokens are held between evictions.
    const Trace third = run(policy + ",timing=decode,interval=3", {25, 16, 31, 3, 18});
    CHECK(mean_rows(third.kept) == 12.0);
    const Trace before = run(policy + ",timing=decode,evict=before", test::ids_of("D6"));
    CHECK(mean_rows(before.kept) == 9.0);
  }
}

// A policy that compresses after each chunk computes the next one on what it kept.
TEST_CASE("chunked compression is another policy than compression of the whole prompt") {
  const Trace whole = run("snapkv:window=4,capacity=10,kernel=5", {}, 7);
  const Trace chunks = run("snapkv:window=4,capacity=10,kernel=5,timing=chunked", {}, 7);
  CHECK(test::largest_difference(chunks.last_logits, as_doubles(whole.last_logits)) > 1e-3);
  CHECK(mean_rows(chunks.kept) == 10.0);
  CHECK(chunks.evicted == whole.evicted);
}

TEST_CASE("entries that tie at the cut are counted") {
  // Pooling by a maximum wider than the text makes all scores of a head equal.
  const Trace trace = run("snapkv:window=4,capacity=10,kernel=101", {});
  for (const auto& layer : trace.kept) {
    for (const Ids& places : layer) CHECK(places == Ids{0, 1, 2, 3, 4, 5, 16, 17, 18, 19});
  }
  CHECK(trace.ties_at_cut == 4 * 10);
  CHECK(run("knorm:capacity=20", {}).ties_at_cut == 0);
}

TEST_CASE("the record of a run shows entries per head and ties") {
  PplRequest request;
  request.model = test::checkpoint("llama").string();
  request.tokens.ids = {test::ids_of("P40")};
  request.policies = {"tova:capacity=8"};
  TaskContext context;
  context.quiet = true;
  const auto records = run_ppl(request, context);
  REQUIRE(records.size() == 1);
  REQUIRE(records[0].ok);
  const json details = json::parse(records[0].details_json);
  CHECK(details["kv_rows"] == json{{8, 8}, {8, 8}});
  REQUIRE(find_metric(records[0], "ties_at_cut") != nullptr);
}

}  // namespace
}  // namespace kvbench
