// The needle task on a small random model: grid, control, lengths, resuming, refusals; and that a
// context fed once gives the same answers as one fed for each question.
#include "task/needle.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "backend/registry.hpp"
#include "core/error.hpp"
#include "policy/registry.hpp"
#include "report/record_store.hpp"
#include "task/needle_probe.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/random_model.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

// A model directory with a byte-level tokenizer, a context of 4096 tokens, and a haystack.
struct Fixture {
  Fixture() {
    write_random_llama(folder, {.vocab = 440}, 3);
    const auto tokenizer = test::golden_directory() / "tokenizers" / "llama3_like";
    std::filesystem::copy_file(tokenizer / "tokenizer.json", folder.path() / "tokenizer.json");
    std::string text;
    for (int i = 0; i < 400; ++i) text += "The sea was calm that day. ";
    haystack = folder.write("hay/haystack.txt", text).string();
  }

  NeedleRequest request(std::vector<std::string> policies) const {
    NeedleRequest made;
    made.model = folder.path().string();
    made.haystack.data = haystack;
    made.policies = std::move(policies);
    made.lengths = {320, 400};
    made.depths = {0.0, 0.5, 1.0};
    return made;
  }

  test::TempDir folder;
  std::string haystack;
};

std::vector<RunRecord> run(const NeedleRequest& request) {
  TaskContext context;
  context.quiet = true;
  return run_needle(request, context);
}

std::string fault(const NeedleRequest& request) {
  return test::error_text<ConfigError>([&] { run(request); });
}

double metric(const RunRecord& record, const char* name) {
  const Metric* found = find_metric(record, name);
  REQUIRE(found != nullptr);
  REQUIRE(found->value.has_value());
  return *found->value;
}

TEST_CASE("needle: a grid with exact lengths, cells, a control and the share kept") {
  const Fixture fixture;
  NeedleRequest request = fixture.request({"full", "window16:positions=original"});
  request.repeats = 2;
  const auto records = run(request);
  REQUIRE(records.size() == 2);
  for (const RunRecord& record : records) {
    CAPTURE(record.reason);
    REQUIRE(record.ok);
    CHECK(metric(record, "prompts") == 12);
    CHECK(metric(record, "control_prompts") == 4);
    CHECK(metric(record, "chance") == doctest::Approx(1.0 / 90000));
    CHECK(metric(record, "control_accuracy") == 0.0);
    CHECK(metric(record, "accuracy_low") <= metric(record, "accuracy"));
    const json details = json::parse(record.details_json);
    CHECK(details["cells"].size() == 6);
    CHECK(details["cells"][0]["n"] == 2);
    for (const json& row : details["samples"]) CHECK(row["prompt_tokens"] == row["length"]);
    for (const json& row : details["controls"]) {
      CHECK(row["prompt_tokens"] == row["length"]);
      CHECK(row["needles"].empty());
    }
  }
  CHECK(metric(records[0], "needle_kept") == 1.0);
  CHECK(metric(records[0], "kv_ratio_to_full") == 1.0);
  CHECK(metric(records[1], "needle_kept") == 0.0);  // question and lead are longer than that
  CHECK(metric(records[1], "kv_ratio_to_full") < 0.06);
}

TEST_CASE("needle: what is asked is the same whatever else the grid holds") {
  const Fixture fixture;
  NeedleRequest all = fixture.request({"full"});
  NeedleRequest one = all;
  one.lengths = {400};
  one.depths = {0.5};
  const json many = json::parse(run(all)[0].details_json);
  const json single = json::parse(run(one)[0].details_json);
  CHECK(many["samples"][4] == single["samples"][0]);
  one.seed = 1;
  CHECK(json::parse(run(one)[0].details_json)["samples"][0]["answers"] !=
        single["samples"][0]["answers"]);
}

TEST_CASE("needle: every template runs, hidden and visible, under policies that compress") {
  const Fixture fixture;
  NeedleRequest request = fixture.request({"full", "snapkv:capacity=64,window=8", "sink4+60",
                                           "h2o:heavy=32,recent=32", "oracle:capacity=64"});
  request.lengths = {512};
  request.depths = {0.3};
  request.templates.clear();
  for (const NeedleTemplate& row : needle_templates()) request.templates.emplace_back(row.name);
  for (const bool hidden : {false, true}) {
    request.hidden = hidden;
    for (const RunRecord& record : run(request)) {
      CAPTURE(record.policy);
      CHECK(record.reason == "");
      CHECK(metric(record, "prompts") == 9);
      CHECK(metric(record, "control_prompts") == 9);
    }
  }
}

TEST_CASE("needle: a context fed once gives the answers of one fed for each question") {
  const Fixture fixture;
  const auto backend = make_backend("cpu", 1);
  const Model model = Model::load(fixture.folder.path(), *backend, DType::f32);
  Ids context;
  for (std::int32_t i = 0; i < 90; ++i) context.push_back((i * i + 7 * i) % 440);
  const std::vector<Ids> questions{{3, 4, 5}, {9, 8, 7}, {11, 2, 60}};
  const Ids reply{20, 21, 22};
  for (const char* text : {"full", "snapkv:capacity=32,window=8", "expected_attention:keep=0.5",
                           "sink4+28", "h2o:heavy=16,recent=16", "tova:capacity=32"}) {
    CAPTURE(text);
    const ConfiguredPolicy shared_policy = make_policy(text);
    NeedleProbe shared(model, *backend, *shared_policy.policy, {.chunk = 16});
    for (const Ids& question : questions) {
      const ConfiguredPolicy policy = make_policy(text);
      NeedleProbe fresh(model, *backend, *policy.policy, {.chunk = 16});
      const ProbeQuestion ask{.context = context,
                              .question = question,
                              .reply = reply,
                              .new_tokens = 6,
                              .hidden = true};
      const ProbeResult a = shared.ask(ask);
      const ProbeResult b = fresh.ask(ask);
      CHECK(a.ids == b.ids);
      CHECK(a.reply_nll == doctest::Approx(b.reply_nll).epsilon(1e-12));
      CHECK(a.prompt_tokens == 93);
      CHECK(a.kv_bytes_live == b.kv_bytes_live);
      // The NLL is that of a session which is fed the reply and nothing else.
      Session session(model, *backend, *policy.policy, {.chunk = 16});
      session.begin(99);
      session.prefill(context, {}, {});
      Ids fed = question;
      fed.insert(fed.end(), reply.begin(), reply.end() - 1);
      Ids targets(fed.begin() + 1, fed.end());
      targets.push_back(reply.back());
      std::vector<double> nll(targets.size());
      session.feed(fed, targets, nll);
      CHECK(nll[2] + nll[3] + nll[4] == doctest::Approx(a.reply_nll).epsilon(1e-5));
    }
  }
}

TEST_CASE("needle: policies that share prompts answer, bit for bit, as each alone") {
  const Fixture fixture;
  const std::vector<std::string> texts{"full",
                                       "snapkv:capacity=64,window=8",
                                       "window40",
                                       "h2o:heavy=30,recent=30",
                                       "expected_attention:keep=0.4",
                                       "oracle:capacity=60",
                                       "sink4+60",
                                       "tova:capacity=60",
                                       "kvzip:capacity=64",
                                       "h2o:heavy=30,recent=30,timing=prefill",
                                       "criticalkv:capacity=60",
                                       "knorm:capacity=60,timing=chunked",
                                       "tova:capacity=60,positions=cache_index",
                                       "recompute90"};
  NeedleRequest request = fixture.request(texts);
  request.lengths = {320, 370};
  request.depths = {0.1, 0.6};
  request.templates = {"passkey", "multi_query"};
  request.repeats = 2;
  request.chunk = 128;
  request.seed = 4;
  for (const bool hidden : {false, true}) {
    CAPTURE(hidden);
    request.hidden = hidden;
    request.policies = texts;
    const auto together = run(request);
    REQUIRE(together.size() == texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(texts[i]);
      request.policies = {texts[i]};
      const RunRecord alone = run(request)[0];
      REQUIRE_MESSAGE(alone.ok, alone.reason);
      CHECK(together[i].policy == texts[i]);
      CHECK(together[i].config_hash == alone.config_hash);
      CHECK(together[i].warnings == alone.warnings);
      CHECK(together[i].details_json == alone.details_json);
      REQUIRE(together[i].metrics.size() == alone.metrics.size());
      for (std::size_t m = 0; m < alone.metrics.size(); ++m) {
        CAPTURE(alone.metrics[m].name);
        CHECK(together[i].metrics[m].value == alone.metrics[m].value);
        CHECK(together[i].metrics[m].standard_error == alone.metrics[m].standard_error);
      }
    }
  }
}

TEST_CASE("needle: a policy that fails leaves the others their prompts") {
  const Fixture fixture;
  NeedleRequest request =
      fixture.request({"full", "snapkv:keep=0.01,window=32", "knorm:capacity=60", "window16"});
  request.lengths = {320};
  const auto records = run(request);
  REQUIRE(records.size() == 4);
  CHECK(test::contains(records[1].reason, "always stay"));
  CHECK_FALSE(records[1].ok);
  for (const std::size_t i : {0, 2, 3}) CHECK(records[i].ok);
  request.strict = true;
  request.policies = {"window4000", "full", "knorm:capacity=400", "knorm:capacity=60"};
  const auto strict = run(request);
  for (const std::size_t i : {0, 2}) CHECK(test::contains(strict[i].reason, "evicted nothing"));
  for (const std::size_t i : {1, 3}) CHECK(strict[i].ok);
}

TEST_CASE("needle: a stop id ends the answer, leading newlines do not") {
  const Fixture fixture;
  const auto backend = make_backend("cpu", 1);
  const Model model = Model::load(fixture.folder.path(), *backend, DType::f32);
  const ConfiguredPolicy policy = make_policy("full");
  NeedleProbe probe(model, *backend, *policy.policy, {});
  const Ids context{1, 2, 3, 4}, question{5}, reply{6};
  const auto ask = [&](const Ids& stop) {
    return probe.ask({.context = context,
                      .question = question,
                      .reply = reply,
                      .stop_ids = stop,
                      .new_tokens = 5});
  };
  const ProbeResult whole = ask({});
  CHECK(whole.ids.size() == 5);
  CHECK_FALSE(whole.stopped);
  const ProbeResult cut = ask({whole.ids[0]});
  CHECK(cut.ids.empty());
  CHECK(cut.stopped);
}

TEST_CASE("needle: prompts beyond the model's context are refused, or marked") {
  const Fixture fixture;
  NeedleRequest request = fixture.request({"full"});
  request.depths = {0.5};
  request.control = false;
  request.lengths = {4097};
  CHECK(test::contains(fault(request), "4097 > 4096"));
  request.lengths = {4096};
  request.new_tokens = 8;
  CHECK(test::contains(fault(request), "4096 + 8 = 4104 > 4096"));
  request.allow_beyond_max = true;
  const RunRecord beyond = run(request)[0];
  CHECK(test::contains(beyond.warnings.at(0), "longer than the model's context"));
  CHECK(record_to_row(beyond).at("beyond_max") == true);
  request.allow_beyond_max = false;
  request.length_is_total = true;
  const RunRecord fits = run(request)[0];
  CHECK(fits.ok);
  CHECK_FALSE(record_to_row(fits).contains("beyond_max"));
  CHECK(json::parse(fits.details_json)["samples"][0]["prompt_tokens"] == 4088);
}

TEST_CASE("needle: a done run is another policy's, capacity's or question's no more") {
  const Fixture fixture;
  const test::TempDir folder;
  RecordStore store(folder.path());
  TaskContext context;
  context.quiet = true;
  context.on_record = [&](const RunRecord& record) { store.write(record); };
  NeedleRequest request = fixture.request({"full"});
  request.lengths = {320};
  CHECK(run_needle(request, context).size() == 1);
  const auto runs_again = [&](const NeedleRequest& asked) {
    const IndexContents done = store.read();
    context.done = &done;
    const std::size_t n = run_needle(asked, context).size();
    context.done = nullptr;
    return n;
  };
  CHECK(runs_again(request) == 0);
  request.policies = {"window8"};
  CHECK(runs_again(request) == 1);
  CHECK(runs_again(request) == 0);
  request.policies = {"window9"};
  CHECK(runs_again(request) == 1);
  request.hidden = true;
  CHECK(runs_again(request) == 1);
  request.depths = {0.2};
  CHECK(runs_again(request) == 1);
}

TEST_CASE("needle: haystacks that are empty or hold the answer, and needles that do not fit") {
  const Fixture fixture;
  NeedleRequest request = fixture.request({"full"});
  request.haystack.data = fixture.folder.write("empty.txt", "").string();
  CHECK(test::contains(fault(request), "the haystack has 0 tokens"));
  std::string text;
  for (int i = 0; i < 60; ++i) text += "A line about ships. ";
  request.haystack.data =
      fixture.folder.write("known.txt", text + "Eat a sandwich in Dolores Park. " + text).string();
  request.templates = {"sentence"};
  request.own = {"The best thing to do is to visit Dolores Park.",
                 "What is the best thing to do?",
                 "",
                 {"Dolores Park"}};
  request.lengths = {1200};
  CHECK(test::contains(fault(request), "the haystack holds the answer \"Dolores Park\" already"));
  request.own = {};
  request.lengths = {20};
  CHECK(test::contains(fault(request), "a prompt of 20 tokens"));
  request = fixture.request({"full"});
  request.own.needle = "x";
  CHECK(test::contains(fault(request), "--template sentence"));
  request = fixture.request({"full"});
  request.haystack.data = fixture.folder.write("short.txt", "One line. ").string();
  request.lengths = {320};
  request.depths = {0.5};
  const RunRecord repeated = run(request)[0];
  CHECK(test::contains(repeated.warnings.at(0), "begun up to"));
  CHECK(json::parse(repeated.details_json)["samples"][0]["haystack_repeats"] > 10);
}

TEST_CASE("needle: the chat template stands around the prompt, and is asked for or not") {
  const Fixture fixture;
  NeedleRequest request = fixture.request({"full"});
  request.chat = ChatUse::always;
  CHECK(test::contains(fault(request), "no chat template"));
  fixture.folder.write("chat_template.jinja",
                       "{% for m in messages %}<|eot_id|>{{ m.role }}: {{ m.content | trim }}"
                       "{% endfor %}<|eot_id|>answer: ");
  const RunRecord chat = run(request)[0];
  REQUIRE(chat.ok);
  const json config = json::parse(chat.config_json);
  CHECK(config["chat"] == true);
  CHECK(config["chat_frame"] == json{"<|eot_id|>user: ", "<|eot_id|>answer: "});
  const json details = json::parse(chat.details_json);
  for (const json& row : details["samples"]) {
    CHECK(row["prompt_tokens"] == row["length"]);
  }
  request.chat = ChatUse::never;
  CHECK(json::parse(run(request)[0].config_json)["chat"] == false);
  request.chat = ChatUse::automatic;
  fixture.folder.write("chat_template.jinja", "{{ messages | groupby('role') }}");
  const auto refused = test::error_text<DataError>([&] { run(request); });
  CHECK(test::contains(refused, "the filter 'groupby' is not supported"));
  CHECK(test::contains(refused, "--chat never"));
}

}  // namespace
}  // namespace kvbench
