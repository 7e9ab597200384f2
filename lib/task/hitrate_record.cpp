// The record of a hit-rate run: configuration, metrics, matrices of layers and heads.
#include "task/hitrate_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/stats.hpp"
#include "report/json_reporter.hpp"
#include "task/run_record.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNothingLarge = "no attention above theta";

Json number(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

std::string theta_name(double theta) {
  return fmt::format("{}", theta);
}

// [layer][query head]
Json matrix(const HitMeter& meter, const std::function<Json(const HeadHits&)>& of_head) {
  Json rows = Json::array();
  for (std::int64_t layer = 0; layer < meter.n_layers(); ++layer) {
    Json row = Json::array();
    for (std::int64_t head = 0; head < meter.n_heads(); ++head)
      row.push_back(of_head(meter.head(layer, head)));
    rows.push_back(std::move(row));
  }
  return rows;
}

Json counts_json(const HitMeter& meter, std::size_t theta) {
  const auto of = [&](const std::function<Json(const HitCounts&)>& field) {
    return matrix(meter, [&](const HeadHits& head) { return field(head.counts[theta]); });
  };
  return {{"theta", meter.options().thetas[theta]},
          {"hit_rate", of([](const HitCounts& c) { return number(c.rate()); })},
          {"hits", of([](const HitCounts& c) { return Json(c.hits); })},
          {"large", of([](const HitCounts& c) { return Json(c.large); })},
          {"hits_after_sinks", of([](const HitCounts& c) { return Json(c.hits_after_sinks); })},
          {"large_after_sinks", of([](const HitCounts& c) { return Json(c.large_after_sinks); })},
          {"empty_steps", of([](const HitCounts& c) { return Json(c.empty_steps); })}};
}

Json layers_json(const HitMeter& meter) {
  Json layers = Json::array();
  for (std::int64_t layer = 0; layer < meter.n_layers(); ++layer) {
    const HeadHits hits = meter.layer(layer);
    Json row = {{"layer", layer},
                {"mass_recall", hits.mass_recall()},
                {"prompt_mass_recall", number(hits.counted_recall())},
                {"top_k_overlap", hits.top_overlap()}};
    for (std::size_t i = 0; i < hits.counts.size(); ++i) {
      row["hit_rate_theta_" + theta_name(meter.options().thetas[i])] =
          number(hits.counts[i].rate());
    }
    layers.push_back(std::move(row));
  }
  return layers;
}

Metric rate_metric(const std::string& name, const SteppedValue& rate, std::int64_t n) {
  if (!rate.value) return missing_metric(name, "", kNothingLarge);
  return sampled_metric(name, *rate.value, "", n, rate.standard_error);
}

Metric optional_metric(const std::string& name, std::optional<double> value) {
  return value ? real_metric(name, *value, "") : missing_metric(name, "", kNothingLarge);
}

void add_rates(const HitMeter& meter, const HeadHits& all, RunRecord& record) {
  const auto& thetas = meter.options().thetas;
  for (std::size_t i = 0; i < thetas.size(); ++i) {
    const std::string suffix = i == 0 ? "" : "_theta_" + theta_name(thetas[i]);
    const HitCounts& counts = all.counts[i];
    record.metrics.push_back(rate_metric("hit_rate" + suffix, meter.pooled_rate(i), meter.steps()));
    record.metrics.push_back(optional_metric("hit_rate_head_mean" + suffix, meter.head_mean(i)));
    record.metrics.push_back(
        optional_metric("hit_rate_after_sinks" + suffix, counts.rate_after_sinks()));
    record.metrics.push_back(count_metric("large_entries" + suffix, counts.large, "entries"));
    record.metrics.push_back(count_metric("empty_steps" + suffix, counts.empty_steps, "steps"));
    record.metrics.push_back(count_metric("empty_heads" + suffix, meter.empty_heads(i), ""));
  }
}

void add_losses(const std::vector<double>& nll, const std::vector<double>& full, std::int64_t block,
                RunRecord& record) {
  if (nll.empty()) return;
  std::vector<double> increase;
  for (std::size_t i = 0; i < nll.size(); ++i) increase.push_back(nll[i] - full[i]);
  const std::int64_t n = std::ssize(nll);
  const auto error = [block](const std::vector<double>& series) {
    return block_bootstrap_standard_error(series, block).value;
  };
  record.metrics.push_back(sampled_metric("nll_mean", mean(nll), "nat", n, error(nll)));
  record.metrics.push_back(real_metric("nll_full", mean(full), "nat"));
  record.metrics.push_back(
      sampled_metric("nll_increase", mean(increase), "nat", n, error(increase)));
}

// Positions that both keep, over the mean number that one of them keeps.
double overlap(const std::vector<std::vector<std::int32_t>>& a,
               const std::vector<std::vector<std::int32_t>>& b) {
  std::size_t both = 0;
  std::size_t sizes = 0;
  std::vector<std::int32_t> common;
  for (std::size_t head = 0; head < a.size(); ++head) {
    common.clear();
    std::set_intersection(a[head].begin(), a[head].end(), b[head].begin(), b[head].end(),
                          std::back_inserter(common));
    both += common.size();
    sizes += a[head].size() + b[head].size();
  }
  return sizes == 0 ? 1.0 : 2.0 * static_cast<double>(both) / static_cast<double>(sizes);
}

Json add_question_overlap(const HitMeasured& measured, RunRecord& record) {
  Json rows = Json::array();
  std::vector<double> pairs;
  const auto& kept = measured.by_question;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    Json row = Json::array();
    for (std::size_t j = 0; j < kept.size(); ++j) {
      row.push_back(overlap(kept[i], kept[j]));
      if (j > i) pairs.push_back(row.back().get<double>());
    }
    rows.push_back(std::move(row));
  }
  if (!pairs.empty()) {
    record.metrics.push_back(real_metric("question_overlap", mean(pairs), ""));
    record.metrics.push_back(
        real_metric("question_overlap_least", *std::min_element(pairs.begin(), pairs.end()), ""));
  }
  return rows;
}

Json segments_json(const std::vector<HitSegment>& segments) {
  Json rows = Json::array();
  for (const HitSegment& segment : segments) {
    rows.push_back({{"document", segment.document},
                    {"first_token", segment.first_token},
                    {"prompt_tokens", segment.prompt.size()},
                    {"context_tokens", segment.context},
                    {"inputs", segment.inputs}});
  }
  return rows;
}

}  // namespace

RunRecord describe_hitrate(const HitRateRequest& request, const ConfiguredPolicy& configured,
                           const Model& model, const TokenSource& source, const Backend& backend) {
  Json config = run_config("hitrate", request, configured, model);
  add_text_config(request.tokens, source, config);
  config.update({{"source", request.greedy ? "greedy" : "text"},
                 {"prompt", request.prompt},
                 {"steps", request.steps},
                 {"offset", request.offset},
                 {"segments", request.segments},
                 {"tail", request.tail},
                 {"theta", request.counting.thetas},
                 {"top_k", request.counting.top_k},
                 {"nll", request.nll}});
  if (!request.questions.empty()) config["questions"] = request.questions;
  RunRecord record = start_record(config, request, configured, model, backend);
  note_data(source, record);
  return record;
}

void add_hitrate_metrics(const std::vector<HitSegment>& segments, const HitMeasured& measured,
                         const TwinMeasured& twin, RunRecord& record) {
  const HitMeter& meter = measured.meter;
  const HeadHits all = meter.all();
  const SteppedValue mass = meter.mass_recall();
  record.metrics.clear();
  add_rates(meter, all, record);
  record.metrics.push_back(
      sampled_metric("mass_recall", *mass.value, "", meter.steps(), mass.standard_error));
  record.metrics.push_back(optional_metric("prompt_mass_recall", all.counted_recall()));
  record.metrics.push_back(real_metric("top_k_overlap", all.top_overlap(), ""));
  add_losses(measured.nll, twin.nll, meter.options().bootstrap_block, record);
  record.metrics.push_back(real_metric(
      "kept_share",
      static_cast<double>(measured.entries_kept) / static_cast<double>(measured.entries), ""));
  record.metrics.push_back(
      count_metric("evictions", measured.entries - measured.entries_kept, "entries"));
  record.metrics.push_back(count_metric("steps_counted", meter.steps(), "steps"));
  record.metrics.push_back(real_metric("policy_s", measured.seconds, "s"));
  record.metrics.push_back(real_metric("twin_s", twin.prompt_seconds + twin.step_seconds, "s"));
  record.timings = {{"load", twin.load_seconds},
                    {"tokenize", twin.tokenize_seconds},
                    {"twin_prompt", twin.prompt_seconds},
                    {"twin_steps", twin.step_seconds},
                    {"policy", measured.seconds}};
  Json details = {{"layers", layers_json(meter)}};
  Json thetas = Json::array();
  for (std::size_t i = 0; i < meter.options().thetas.size(); ++i) {
    thetas.push_back(counts_json(meter, i));
  }
  details["heads"] = std::move(thetas);
  details["mass_recall"] =
      matrix(meter, [](const HeadHits& head) { return Json(head.mass_recall()); });
  details["prompt_mass_recall"] =
      matrix(meter, [](const HeadHits& head) { return number(head.counted_recall()); });
  details["top_k_overlap"] =
      matrix(meter, [](const HeadHits& head) { return Json(head.top_overlap()); });
  details["segments"] = segments_json(segments);
  if (!measured.by_question.empty()) {
    details["question_overlap"] = add_question_overlap(measured, record);
  }
  record.details_json = dump_json(details);
}

}  // namespace kvbench
