// The record of a perplexity run: configuration, environment, metrics, curve and documents.
#include "task/ppl_record.hpp"

#include <nlohmann/json.hpp>

#include "core/stats.hpp"
#include "report/json_reporter.hpp"
#include "task/run_record.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

// Every setting that can change the numbers; model and data by content hash.
Json config_json(const PplRequest& request, const PplProtocol& protocol,
                 const ConfiguredPolicy& configured, const Model& model,
                 const TokenSource& source) {
  Json config = run_config("ppl", request, configured, model);
  config.update({{"protocol", request.protocol},
                 {"documents_mode", request.documents == DocumentMode::carry ? "carry" : "reset"}});
  add_text_config(request.tokens, source, config);
  if (protocol.has_window) {
    config["window"] = request.protocol_options.window;
    config["stride"] = request.protocol_options.stride;
    config["prefix_id"] = request.protocol_options.prefix_id;
  }
  if (protocol.has_prompt) {
    config["prompt"] = request.protocol_options.prompt;
    config["score"] = request.protocol_options.score;
  }
  return config;
}

Json curve_json(const PerplexityResult& result) {
  Json curve = Json::array();
  for (const CurveBin& bin : result.curve) {
    curve.push_back({{"first_position", bin.first_position},
                     {"end_position", bin.end_position},
                     {"tokens", bin.tokens},
                     {"nll_mean", bin.nll_mean ? Json(*bin.nll_mean) : Json()}});
  }
  return curve;
}

Json documents_json(const PerplexityResult& result) {
  Json documents = Json::array();
  for (const DocumentPerplexity& document : result.documents) {
    documents.push_back({{"name", document.name},
                         {"tokens_scored", document.tokens_scored},
                         {"nll_mean", document.nll_mean ? Json(*document.nll_mean) : Json()},
                         {"ppl", document.ppl ? Json(*document.ppl) : Json()},
                         {"skipped", document.skipped.empty() ? Json() : Json(document.skipped)}});
  }
  return documents;
}

Metric optional_metric(const std::string& name, std::optional<double> value,
                       const std::string& unit, const std::string& reason) {
  return value ? real_metric(name, *value, unit) : missing_metric(name, unit, reason);
}

}  // namespace

RunRecord describe_ppl(const PplRequest& request, const PplProtocol& protocol,
                       const ConfiguredPolicy& configured, const Model& model,
                       const TokenSource& source, const Backend& backend) {
  RunRecord record = start_record(config_json(request, protocol, configured, model, source),
                                  request, configured, model, backend);
  record.streams = static_cast<int>(request.streams);
  note_data(source, record);
  return record;
}

void add_ppl_metrics(const PerplexityResult& result, const PplMeasured& measured,
                     const PolicyTraits& traits, std::optional<double> full_ppl,
                     RunRecord& record) {
  const std::int64_t n = result.tokens_scored;
  std::optional<double> to_full;
  if (full_ppl) to_full = result.ppl / *full_ppl;
  const double share = measured.kv_bytes_full > 0 ? static_cast<double>(measured.kv_bytes_live) /
                                                        static_cast<double>(measured.kv_bytes_full)
                                                  : 0.0;
  const std::string no_text = "plain token ids have no text";
  record.metrics = {
      sampled_metric("ppl", result.ppl, "", n, result.ppl_stderr),
      sampled_metric("nll_mean", result.nll_mean, "nat", n, result.nll_stderr),
      real_metric("nll_sum", result.nll_sum, "nat"),
      optional_metric("bits_per_byte", result.bits_per_byte, "bit", no_text),
      optional_metric("word_ppl", result.word_ppl, "", no_text),
      optional_metric("ppl_second_half", result.second_half_ppl, "", "too few tokens"),
      count_metric("tokens_scored", n, "tokens"),
      real_metric("tokens_per_s", static_cast<double>(measured.tokens_fed) / measured.seconds,
                  "1/s"),
      count_metric("kv_bytes_live", measured.kv_bytes_live, "B"),
      count_metric("kv_bytes_allocated", measured.kv_bytes_allocated, "B"),
      count_metric("kv_bytes_peak", measured.kv_bytes_peak, "B"),
      count_metric("kv_bytes_peak_allocated", measured.kv_bytes_peak_allocated, "B"),
      count_metric("peak_rss_bytes", peak_rss_bytes(), "B"),
      optional_metric("ratio_to_full", to_full, "", "policy full was not run"),
      real_metric("kv_ratio_to_full", share, ""),
      count_metric("evictions", measured.evicted, "entries"),
      count_metric("ties_at_cut", measured.ties_at_cut, "entries"),
      count_metric("documents_scored", result.documents_scored, ""),
      count_metric("documents_skipped", result.documents_skipped, ""),
  };
  if (measured.prefill_tokens > 0) {
    record.metrics.push_back(real_metric(
        "prefill_tokens_per_s",
        static_cast<double>(measured.prefill_tokens) / measured.prefill_seconds, "1/s"));
  }
  if (record.streams > 1) {
    record.metrics.push_back(real_metric(
        "streams_mean", static_cast<double>(measured.turns) / static_cast<double>(measured.passes),
        ""));
  }
  if (measured.kivi) {
    record.metrics.push_back(count_metric("quantised_rows", measured.quantised_rows, "rows"));
  }
  record.metrics.push_back(real_metric("kept_mean", mean(measured.kept), "entries"));
  if (traits.capacity < kUnlimited) {
    record.metrics.push_back(count_metric("capacity", traits.capacity, "entries"));
  }
  record.timings = {{"load", measured.load_seconds},
                    {"tokenize", measured.tokenize_seconds},
                    {"prefill", measured.prefill_seconds},
                    {"prefill_shared", measured.shared_prefill_seconds},
                    {"score", measured.seconds}};
  record.details_json = dump_json(Json{{"curve", curve_json(result)},
                                       {"documents", documents_json(result)},
                                       {"kv_rows", measured.kv_rows}});
}

}  // namespace kvbench
