// Definitions of needle_record.hpp.
#include "task/needle_record.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/stats.hpp"
#include "metric/answer_match.hpp"
#include "report/json_reporter.hpp"
#include "task/run_record.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

Json config_json(const NeedleRequest& request, const ConfiguredPolicy& configured,
                 const Model& model, const TokenSource& source, const NeedlePlan& plan) {
  Json config = run_config("needle", request, configured, model);
  config.update({{"data_sha256", source.sha256},
                 {"max_tokens", request.haystack.max_tokens},
                 {"newline", newline_name(request.haystack.corpus.newline)},
                 {"bos", plan.bos},
                 {"lengths", request.lengths},
                 {"length_counts", request.length_is_total ? "total" : "prompt"},
                 {"depths", request.depths},
                 {"boundary", request.between_sentences ? "sentence" : "token"},
                 {"repeats", request.repeats},
                 {"templates", request.templates},
                 {"question", request.hidden ? "hidden" : "visible"},
                 {"new_tokens", request.new_tokens},
                 {"control", request.control},
                 {"chat", plan.frame.chat}});
  const std::int64_t most = model.config().max_positions;
  for (const NeedleItem& item : plan.items) {
    const auto tokens = std::ssize(item.prompt.context) + std::ssize(item.prompt.question);
    if (most > 0 && tokens + item.new_tokens > most) config["beyond_max"] = true;
  }
  if (plan.frame.chat) config["chat_frame"] = {plan.frame.before, plan.frame.after};
  if (request.own.given()) {
    config["own_needle"] = {{"needle", request.own.needle},
                            {"question", request.own.question},
                            {"lead", request.own.lead},
                            {"answers", request.own.answers}};
  }
  return config;
}

// Means over some of the answers.
struct Tally {
  std::vector<double> ok, contains, recall, leading, nll, needle_kept;
  double chance = 0.0;

  void add(const NeedleAnswer& answer) {
    const NeedleItem& item = *answer.item;
    const auto wanted = static_cast<double>(item.answers.size());
    ok.push_back(answer.ok() ? 1.0 : 0.0);
    contains.push_back(answer.ok_contains() ? 1.0 : 0.0);
    recall.push_back(static_cast<double>(answer.strict) / wanted);
    leading.push_back(static_cast<double>(answer.leading) /
                      static_cast<double>(item.answers.front().size()));
    nll.push_back(answer.probe.reply_nll / static_cast<double>(item.reply.size()));
    needle_kept.push_back(answer.probe.needle_kept);
    chance += item.chance;
  }
  std::int64_t n() const { return std::ssize(ok); }
  std::int64_t right() const { return std::llround(sum(ok)); }
};

Metric mean_metric(const std::string& name, const std::vector<double>& values,
                   const std::string& unit, const std::string& reason) {
  if (values.empty()) return missing_metric(name, unit, reason);
  return sampled_metric(name, mean(values), unit, std::ssize(values), standard_error(values));
}

Json place_json(const NeedlePlace& place) {
  return {{"first", place.first}, {"tokens", place.tokens}, {"depth", place.depth}};
}

Json sample_json(const NeedleAnswer& answer) {
  const NeedleItem& item = *answer.item;
  const ProbeResult& probe = answer.probe;
  Json needles = Json::array();
  for (const NeedlePlace& place : item.asked) needles.push_back(place_json(place));
  return {{"template", item.template_name},
          {"length", item.length},
          {"depth", item.control ? Json() : Json(item.depth)},
          {"repeat", item.repeat},
          {"query", item.query},
          {"prompt_tokens", probe.prompt_tokens},
          {"haystack_repeats", item.prompt.haystack_repeats},
          {"needles", needles},
          {"answers", item.answers},
          {"output", answer.text},
          {"output_ids", probe.ids},
          {"finish", probe.stopped ? "stop" : "length"},
          {"ok", answer.ok()},
          {"ok_contains", answer.ok_contains()},
          {"answers_right", answer.strict},
          {"leading_right", answer.leading},
          {"answer_nll", probe.reply_nll},
          {"answer_tokens", item.reply.size()},
          {"needle_kept", item.control ? Json() : Json(probe.needle_kept)},
          {"evictions", probe.evicted},
          {"kv_bytes_live", probe.kv_bytes_live}};
}

Json cells_json(const std::vector<NeedleAnswer>& answers) {
  std::map<std::tuple<std::string, std::int64_t, double>, Tally> cells;
  for (const NeedleAnswer& answer : answers) {
    if (answer.item->control) continue;
    cells[{answer.item->template_name, answer.item->length, answer.item->depth}].add(answer);
  }
  Json rows = Json::array();
  for (const auto& [key, tally] : cells) {
    const Interval interval = wilson_interval(tally.right(), tally.n());
    rows.push_back({{"template", std::get<0>(key)},
                    {"length", std::get<1>(key)},
                    {"depth", std::get<2>(key)},
                    {"n", tally.n()},
                    {"right", tally.right()},
                    {"accuracy", mean(tally.ok)},
                    {"low", interval.low},
                    {"high", interval.high},
                    {"accuracy_contains", mean(tally.contains)},
                    {"answer_nll", mean(tally.nll)},
                    {"needle_kept", mean(tally.needle_kept)}});
  }
  return rows;
}

void add_totals(const Tally& asked, const Tally& control, RunRecord& record) {
  const Interval interval = wilson_interval(asked.right(), asked.n());
  const std::string no_control = "no control was asked for";
  record.metrics = {
      mean_metric("accuracy", asked.ok, "", ""),
      real_metric("accuracy_low", interval.low, ""),
      real_metric("accuracy_high", interval.high, ""),
      mean_metric("accuracy_contains", asked.contains, "", ""),
      mean_metric("answers_right_share", asked.recall, "", ""),
      mean_metric("leading_right_share", asked.leading, "", ""),
      mean_metric("answer_nll_mean", asked.nll, "nat", ""),
      real_metric("chance", asked.chance / static_cast<double>(asked.n()), ""),
      mean_metric("control_accuracy", control.ok, "", no_control),
      mean_metric("control_nll_mean", control.nll, "nat", no_control),
      mean_metric("needle_kept", asked.needle_kept, "", ""),
      count_metric("prompts", asked.n(), ""),
      count_metric("control_prompts", control.n(), ""),
  };
}

}  // namespace

NeedleAnswer judge_answer(const NeedleItem& item, ProbeResult probe, const Tokenizer& tokenizer) {
  NeedleAnswer answer;
  answer.item = &item;
  // A model may have more rows than the tokenizer has ids; they spell nothing.
  std::vector<std::int32_t> spelled = probe.ids;
  std::erase_if(spelled, [&](std::int32_t id) { return id >= tokenizer.vocab_size(); });
  answer.text = tokenizer.decode(spelled);
  const AnswerMatch match = match_answers(item.answers, answer.text);
  answer.strict = match.strict;
  answer.contains = match.contains;
  answer.leading = leading_characters_right(item.answers.front(), answer.text);
  answer.probe = std::move(probe);
  return answer;
}

RunRecord describe_needle(const NeedleRequest& request, const ConfiguredPolicy& configured,
                          const Model& model, const TokenSource& source, const NeedlePlan& plan,
                          const Backend& backend) {
  RunRecord record = start_record(config_json(request, configured, model, source, plan), request,
                                  configured, model, backend);
  note_data(source, record);
  return record;
}

void add_needle_metrics(const NeedleMeasured& measured, RunRecord& record) {
  Tally asked;
  Tally control;
  Json samples = Json::array();
  Json controls = Json::array();
  std::int64_t fed = 0, live = 0, peak = 0, full = 0, evicted = 0;
  double prompt_seconds = 0.0, answer_seconds = 0.0;
  for (const NeedleAnswer& answer : measured.answers) {
    const bool is_control = answer.item->control;
    (is_control ? control : asked).add(answer);
    (is_control ? controls : samples).push_back(sample_json(answer));
    fed += answer.probe.tokens_fed;
    prompt_seconds += answer.probe.prompt_seconds;
    answer_seconds += answer.probe.answer_seconds;
    if (is_control) continue;
    evicted += answer.probe.evicted;
    live += answer.probe.kv_bytes_live;
    peak = std::max(peak, answer.probe.kv_bytes_peak);
    full += answer.probe.prompt_tokens * measured.kv_bytes_per_token;
  }
  add_totals(asked, control, record);
  record.metrics.push_back(count_metric("evictions", evicted, "entries"));
  record.metrics.push_back(count_metric("kv_bytes_peak", peak, "B"));
  record.metrics.push_back(
      real_metric("kv_ratio_to_full", static_cast<double>(live) / static_cast<double>(full), ""));
  record.metrics.push_back(count_metric("tokens_fed", fed, "tokens"));
  record.timings = {{"load", measured.load_seconds},
                    {"plan", measured.plan_seconds},
                    {"shared_prompts", measured.twin_seconds},
                    {"prompts", prompt_seconds},
                    {"answers", answer_seconds}};
  record.details_json = dump_json(
      Json{{"cells", cells_json(measured.answers)}, {"samples", samples}, {"controls", controls}});
}

}  // namespace kvbench
