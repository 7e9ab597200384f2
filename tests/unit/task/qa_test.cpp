// The question task on a tiny random checkpoint with a real tokenizer: prompts, truncation, hidden
// questions, answers and scores.
#include "task/qa.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "backend/registry.hpp"
#include "core/error.hpp"
#include "core/stats.hpp"
#include "engine/session.hpp"
#include "policy/registry.hpp"
#include "report/record_store.hpp"
#include "task/qa_items.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/tiny_qa.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

const std::string& model_directory() {
  static const test::TempDir folder;
  static const std::string path = [] {
    test::write_tiny_qa_model(folder);
    return folder.path().string();
  }();
  return path;
}

QaRequest request_for(std::vector<std::string> policies,
                      const std::string& file = "stories.jsonl") {
  QaRequest request;
  request.model = model_directory();
  request.data = test::qa_samples(file);
  request.policies = std::move(policies);
  return request;
}

std::vector<RunRecord> run(const QaRequest& request) {
  TaskContext context;
  context.quiet = true;
  return run_qa(request, context);
}

json details(const RunRecord& record) {
  REQUIRE_MESSAGE(record.ok, record.reason);
  return json::parse(record.details_json);
}

double metric(const RunRecord& record, const std::string& name) {
  const Metric* found = find_metric(record, name);
  REQUIRE(found != nullptr);
  return found->value.value_or(std::nan(""));
}

TEST_CASE("qa prompts: the text of the template, BOS first, the question last") {
  const auto input = read_qa_input(request_for({"full"}));
  REQUIRE(input->items.size() == 5);
  CHECK(input->bos == "420");
  for (const QaItem& item : input->items) {
    const std::string question = item.dataset->prompt.after_context(*item.sample);
    const std::string text =
        item.dataset->prompt.before_context(*item.sample) + item.sample->context + question;
    CHECK(item.ids == input->tokenizer->encode(text, {.add_bos = true}));
    CHECK_FALSE(item.truncated);
    const std::span<const std::int32_t> ids(item.ids);
    const std::string tail = input->tokenizer->decode(ids.subspan(item.question_begin));
    CHECK(tail.ends_with(question));
    CHECK(tail.size() < question.size() + 20);  // one token may reach into the context
  }
}

TEST_CASE("qa prompts: a longer one loses its middle, in tokens, and is tokenized anew") {
  const auto whole = read_qa_input(request_for({"full"}));
  for (const std::int64_t max_length : {101, 40, 2}) {
    QaRequest request = request_for({"full"});
    request.max_length = max_length;
    const auto cut = read_qa_input(request);
    const auto half = static_cast<std::size_t>(max_length / 2);
    for (std::size_t i = 0; i < cut->items.size(); ++i) {
      const std::span<const std::int32_t> ids(whole->items[i].ids);
      const std::string text = whole->tokenizer->decode(ids.first(half), true) +
                               whole->tokenizer->decode(ids.last(half), true);
      CHECK(cut->items[i].truncated);
      CHECK(cut->items[i].whole_tokens == static_cast<std::int64_t>(ids.size()));
      CHECK(cut->items[i].ids == whole->tokenizer->encode(text, {.add_bos = true}));
    }
  }
  QaRequest named = request_for({"full"});
  named.bos = "65";  // an ordinary token
  named.max_length = 40;
  const auto cut = read_qa_input(named);
  CHECK(cut->bos == "65");
  CHECK(cut->items[0].ids.front() == 65);
  CHECK(cut->items[0].ids[1] == whole->items[0].ids[1]);
  QaRequest request = request_for({"full"});
  request.max_length = static_cast<std::int64_t>(whole->items[0].ids.size());
  CHECK_FALSE(read_qa_input(request)->items[0].truncated);
  request.max_length = 1;
  CHECK_THROWS_AS(check_qa(request), ConfigError);
}

TEST_CASE("qa prompts: a chat's frame stands around prompts that are meant for it") {
  const test::TempDir folder;
  test::write_tiny_qa_model(folder);
  folder.write("chat_template.jinja",
               "{% for m in messages %}<|begin_of_text|>[{{ m.role }}] {{ m.content }}<|eot_id|>"
               "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}");
  QaRequest request = request_for({"full"}, "");
  request.model = folder.path().string();
  const auto framed = read_qa_input(request);
  request.chat = ChatUse::never;
  const auto plain = read_qa_input(request);
  CHECK(framed->frame.chat);
  CHECK_FALSE(plain->frame.chat);
  std::size_t chats = 0;
  for (std::size_t i = 0; i < framed->items.size(); ++i) {
    const QaItem& item = framed->items[i];
    const std::string& name = item.sample->dataset;
    if (name == "trec" || name == "samsum" || name == "lcc") {
      CHECK(item.ids == plain->items[i].ids);
      continue;
    }
    ++chats;
    const std::string text = framed->tokenizer->decode(item.ids);
    const std::string question = item.dataset->prompt.after_context(*item.sample);
    CHECK(text.starts_with("<|begin_of_text|>[user] "));
    CHECK(text.ends_with(question + "<|eot_id|>[assistant]"));
    CHECK(item.ids[0] == 420);
    CHECK(item.ids[1] != 420);
    const std::span<const std::int32_t> ids(item.ids);
    CHECK(framed->tokenizer->decode(ids.subspan(item.question_begin))
              .ends_with(question + "<|eot_id|>[assistant]"));
    CHECK(item.whole_tokens == plain->items[i].whole_tokens);
  }
  CHECK(chats == 6);
  request.chat = ChatUse::automatic;
  request.specials = SpecialTokens::text;
  CHECK_THROWS_AS(read_qa_input(request), ConfigError);
  request.model = model_directory();
  request.chat = ChatUse::always;
  CHECK_THROWS_AS(read_qa_input(request), ConfigError);
}

TEST_CASE("qa prompts: tokens before the question show nothing of it, whatever the tokenizer") {
  for (const char* tokenizer : {"llama2_like_first", "qwen2_like", "falcon_like", "commandr_like",
                                "sentencepiece_byte_fallback", "tekken_like"}) {
    CAPTURE(std::string(tokenizer));
    for (const std::int64_t max_length : {0, 90}) {
      QaRequest request = request_for({"full"}, "");
      request.model = std::string(KVBENCH_SOURCE_DIR) + "/tests/golden/tokenizers/" + tokenizer;
      request.question_hidden = true;
      request.max_length = max_length;
      const auto input = read_qa_input(request);
      REQUIRE(input->items.size() == 10);
      for (const QaItem& item : input->items) {
        const std::span<const std::int32_t> ids(item.ids);
        const std::string all = input->tokenizer->decode(ids);
        const std::string shown = input->tokenizer->decode(ids.first(item.question_begin));
        const std::string question = item.dataset->prompt.after_context(*item.sample);
        // Of a truncated prompt the question's own beginning may be gone.
        const std::size_t hidden = all.size() - shown.size();
        if (!item.truncated) {
          CHECK(hidden >= question.size());
          CHECK(hidden <= question.size() + 24);
        }
        CHECK(hidden > 0);
        CHECK(item.question_begin > 0);
      }
    }
  }
}

TEST_CASE("qa: greedy answers of full, as decoded by hand; every sample has its row") {
  const QaRequest request = request_for({"full"});
  const auto input = read_qa_input(request);
  const auto records = run(request);
  REQUIRE(records.size() == 1);
  const json rows = details(records[0])["samples"];
  REQUIRE(rows.size() == 5);

  const auto backend = make_backend("cpu", 1);
  const Model model = Model::load(model_directory(), *backend, DType::f32);
  const ConfiguredPolicy full = make_policy("full");
  Session session(model, *backend, *full.policy, {});
  std::size_t padding = 0;
  for (const std::size_t i : {0, 1, 4}) {
    const QaItem& item = input->items[i];
    session.begin(static_cast<std::int64_t>(item.ids.size()) + item.dataset->max_new_tokens);
    session.feed(item.ids);
    Ids answer;
    std::vector<float> logits(test::kTinyQaVocab);
    while (static_cast<std::int64_t>(answer.size()) < item.dataset->max_new_tokens) {
      session.last_logits(logits);
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      const auto& stops = input->tokenizer->eos_ids();
      if (std::find(stops.begin(), stops.end(), best) != stops.end()) break;
      answer.push_back(static_cast<std::int32_t>(best));
      session.feed({&answer.back(), 1});
    }
    CHECK(rows[i]["generated"] == answer.size());
    padding += std::erase_if(answer, [](std::int32_t id) { return id >= 423; });
    CHECK(rows[i]["output"] == input->tokenizer->decode(answer, true));
    CHECK(rows[i]["prompt_tokens"] == item.ids.size());
    CHECK(rows[i]["kept"] == static_cast<double>(item.ids.size()));
    CHECK(rows[i]["id"] == item.sample->id);
  }
  CHECK(padding > 0);  // rows of the model that the tokenizer has no id for
}

// The outputs of one run, as the answers of the next.
std::filesystem::path answered(const test::TempDir& folder, const json& rows) {
  std::string lines;
  std::ifstream in(test::qa_samples("stories.jsonl"));
  std::string line;
  for (std::size_t i = 0; std::getline(in, line); ++i) {
    json row = json::parse(line);
    row["dataset"] = "narrativeqa";
    if (i != 1) row["answers"] = {"nothing", rows[i]["output"]};
    lines += row.dump() + "\n";
  }
  return folder.write("answered.jsonl", lines);
}

TEST_CASE("qa: scores are percent, the best of the answers, with mean and standard error") {
  const test::TempDir folder;
  const auto prompts = folder.write(
      "prompts.json",
      R"({"narrativeqa": {"prompt": "{context} {input}", "max_new_tokens": 12, "metric": "rouge_l"},
          "gov_report": {"prompt": "{context}", "max_new_tokens": 12, "metric": "rouge_l"},
          "passage_retrieval_en":
            {"prompt": "{context} {input}", "max_new_tokens": 12, "metric": "rouge_l"}})");
  QaRequest request = request_for({"full"});
  request.prompts = prompts.string();
  // gov_report has another prompt than the dataset that its sample is moved to.
  request.datasets = {"narrativeqa", "passage_retrieval_en"};
  json rows = details(run(request)[0])["samples"];
  REQUIRE(rows.size() == 4);
  rows.insert(rows.begin() + 3, json{{"output", "?"}});

  request.data = answered(folder, rows).string();
  request.datasets.clear();
  const RunRecord record = run(request)[0];
  const json scored = details(record)["samples"];
  std::vector<double> scores;
  for (const json& row : scored) scores.push_back(row["score"]);
  REQUIRE(scores.size() == 5);
  for (const std::size_t i : {0, 2, 4}) CHECK(scores[i] > 99.99);
  CHECK(scores[1] < 50.0);
  CHECK(metric(record, "score") == doctest::Approx(mean(scores)));
  CHECK(metric(record, "score_narrativeqa") == doctest::Approx(mean(scores)));
  CHECK(*find_metric(record, "score")->standard_error == doctest::Approx(*standard_error(scores)));
  CHECK(metric(record, "samples") == 5);
}

TEST_CASE("qa: several datasets; the score is the mean of their means") {
  const RunRecord record = run(request_for({"full"}, ""))[0];
  const json found = details(record)["datasets"];
  REQUIRE(found.size() == 7);
  double sum = 0.0;
  for (const json& dataset : found) sum += dataset["score"].get<double>();
  CHECK(metric(record, "score") == doctest::Approx(sum / 7));
  CHECK_FALSE(find_metric(record, "score")->standard_error.has_value());
  CHECK(found[0]["name"] == "trec");
  CHECK(found[0]["samples"] == 2);
  CHECK(found[0]["metric"] == "classification");
  CHECK(json::parse(record.config_json)["datasets"].size() == 7);
}

TEST_CASE("qa: policies evict; full runs first and is compared with") {
  const auto records = run(request_for({"snapkv:capacity=64,window=8", "full", "sink4+60"}));
  REQUIRE(records.size() == 3);
  CHECK(records[1].policy == "full");
  CHECK(metric(records[1], "score_minus_full") == 0.0);
  CHECK(metric(records[1], "evictions") == 0);
  for (const std::size_t i : {0, 2}) {
    CHECK(metric(records[i], "evictions") > 0);
    CHECK(metric(records[i], "kept_mean") == 64.0);
    CHECK(metric(records[i], "score_minus_full") ==
          doctest::Approx(metric(records[i], "score") - metric(records[1], "score")));
    CHECK(metric(records[i], "kv_bytes_peak") > 0);
    CHECK_FALSE(find_metric(records[i], "score_minus_full")->standard_error.has_value());
  }
  CHECK(records[0].config_hash != records[2].config_hash);
}

TEST_CASE("qa: the difference to full has the error of paired samples") {
  QaRequest request = request_for({"full", "sink4+60"});
  request.datasets = {"narrativeqa"};
  const auto records = run(request);
  const json full = details(records[0])["samples"];
  const json other = details(records[1])["samples"];
  std::vector<double> differences;
  for (std::size_t i = 0; i < 3; ++i) {
    differences.push_back(other[i]["score"].get<double>() - full[i]["score"].get<double>());
  }
  const Metric* found = find_metric(records[1], "score_minus_full");
  CHECK(*found->value == doctest::Approx(mean(differences)));
  REQUIRE(found->standard_error.has_value());
  CHECK(*found->standard_error == doctest::Approx(*standard_error(differences)));
  CHECK(*find_metric(records[0], "score_minus_full")->standard_error == 0.0);
}

TEST_CASE("qa: a hidden question changes nothing for full, and what others keep") {
  QaRequest request = request_for({"full", "snapkv:capacity=64,window=8", "oracle:capacity=64"});
  request.samples = 1;
  const auto seen = run(request);
  request.question_hidden = true;
  const auto hidden = run(request);
  for (const auto& records : {seen, hidden}) CHECK(records[2].ok);
  CHECK(seen[0].config_hash != hidden[0].config_hash);
  const json full_seen = details(seen[0])["samples"];
  const json full_hidden = details(hidden[0])["samples"];
  REQUIRE(full_seen.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(full_seen[i]["output"] == full_hidden[i]["output"]);
    const int prompt = full_hidden[i]["prompt_tokens"];
    const int question = full_hidden[i]["question_tokens"];
    CHECK(question > 0);
    CHECK(full_hidden[i]["kept"] == static_cast<double>(prompt - question));
    CHECK(details(hidden[1])["samples"][i]["kept"] == 64.0);
  }
  CHECK(details(seen[1])["samples"] != details(hidden[1])["samples"]);
}

TEST_CASE("qa: policies that share prompts answer, bit for bit, as each alone") {
  const std::vector<std::string> texts{"window64",
                                       "snapkv:capacity=64,window=8",
                                       "full",
                                       "h2o:heavy=30,recent=30",
                                       "expected_attention:keep=0.4",
                                       "oracle:capacity=60",
                                       "tova:capacity=60,timing=prefill"};
  QaRequest request = request_for(texts);
  request.samples = 2;
  for (const bool hidden : {false, true}) {
    CAPTURE(hidden);
    request.question_hidden = hidden;
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
      CHECK(together[i].details_json == alone.details_json);
      CHECK(find_metric(together[i], "score_minus_full")->value.has_value());
      for (const char* name : {"score", "kept_mean", "kv_bytes_peak", "evictions", "ties_at_cut"}) {
        CAPTURE(name);
        CHECK(metric(together[i], name) == metric(alone, name));
      }
    }
  }
}

TEST_CASE("qa: done runs are left out, and full's score is still compared with") {
  const test::TempDir folder;
  RecordStore store(folder.path());
  TaskContext context;
  context.quiet = true;
  context.on_record = [&](const RunRecord& record) { store.write(record); };
  CHECK(run_qa(request_for({"full"}), context).size() == 1);
  const IndexContents done = store.read();
  context.done = &done;
  const auto records = run_qa(request_for({"full", "window64"}), context);
  REQUIRE(records.size() == 1);
  CHECK(std::isfinite(metric(records[0], "score_minus_full")));
}

TEST_CASE("qa: nothing evicted is a warning, or an error when strict") {
  QaRequest request = request_for({"window4096"});
  const RunRecord record = run(request)[0];
  CHECK(record.ok);
  CHECK(test::contains(record.warnings.back(), "evicted nothing"));
  request.strict = true;
  CHECK(run(request)[0].exit_code == 2);
}

TEST_CASE("qa: prompts beyond the model's positions, and answers that are no class, are warnings") {
  const test::TempDir folder;
  std::string words;
  for (int i = 0; i < 4000; ++i) words += "wheel ";
  const json row = {{"input", "?"},
                    {"context", words},
                    {"answers", {"Place"}},
                    {"dataset", "trec"},
                    {"all_classes", {"Person", "Number"}}};
  QaRequest request = request_for({"full"});
  request.data = folder.write("long.jsonl", row.dump()).string();
  const RunRecord record = run(request)[0];
  CHECK(metric(record, "score") == 0.0);
  CHECK(test::contains(json(record.warnings).dump(), "1 samples have no answer among"));
  CHECK(test::contains(json(record.warnings).dump(), "longer than the 4096 positions"));
  request.max_length = 400;
  CHECK_FALSE(test::contains(json(run(request)[0].warnings).dump(), "positions"));
}

TEST_CASE("qa: a policy that cannot take a prompt names the sample") {
  const RunRecord record = run(request_for({"snapkv:keep=0.01,window=8"}))[0];
  CHECK_FALSE(record.ok);
  CHECK(record.exit_code == 2);
  CHECK(test::contains(record.reason, "stories.jsonl, line 1: "));
}

TEST_CASE("qa: requests that cannot be right") {
  const auto refusal = [](const QaRequest& request) {
    return test::error_text<Error>([&] { estimate_qa(request); });
  };
  QaRequest request = request_for({});
  CHECK(test::contains(refusal(request), "no policy"));
  request = request_for({"full"});
  request.datasets = {"qmsum"};
  CHECK(test::contains(refusal(request), "\"qmsum\""));
  request = request_for({"full"});
  request.bos = "first";
  CHECK(test::contains(refusal(request), "--bos"));
  const test::TempDir folder;
  const auto prompts = folder.write(
      "prompts.json",
      R"({"narrativeqa": {"prompt": "{input} {context}", "max_new_tokens": 4, "metric": "qa_f1"},
          "gov_report": {"prompt": "{context}", "max_new_tokens": 4, "metric": "classification"}})");
  request = request_for({"full"});
  request.prompts = prompts.string();
  CHECK(test::contains(refusal(request), "stories.jsonl, line 4: key answers: classification"));
  request.datasets = {"narrativeqa"};
  CHECK(refusal(request) == "no error");
  CHECK(estimate_qa(request).tokens > 100);
  request.question_hidden = true;
  CHECK(test::contains(refusal(request), "{input} stands before {context}"));
  request.datasets = {"passage_retrieval_en"};
  CHECK(test::contains(refusal(request), "passage_retrieval_en"));
}

}  // namespace
}  // namespace kvbench
