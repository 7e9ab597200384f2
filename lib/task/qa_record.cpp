// The record of a run of questions: configuration, scores by dataset, one row for each sample.
#include "task/qa_record.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/stats.hpp"
#include "report/json_reporter.hpp"
#include "task/run_record.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

struct DatasetScore {
  std::string name;
  const QaDataset* dataset = nullptr;
  std::vector<double> scores;  // percent, in the order of the samples
  std::int64_t prompt_tokens = 0;
  std::int64_t truncated = 0;

  double mean_score() const { return mean(scores); }
};

// In the order in which datasets come up.
std::vector<DatasetScore> by_dataset(const std::vector<QaAnswer>& answers) {
  std::vector<DatasetScore> groups;
  for (const QaAnswer& answer : answers) {
    const std::string& name = answer.item->sample->dataset;
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const DatasetScore& known) { return known.name == name; });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), {name, answer.item->dataset, {}, 0, 0});
    }
    group->scores.push_back(100.0 * answer.score);
    group->prompt_tokens += static_cast<std::int64_t>(answer.item->ids.size());
    group->truncated += answer.item->truncated ? 1 : 0;
  }
  return groups;
}

// score_repobench_p for repobench-p.
std::string metric_name(const std::string& dataset) {
  std::string name = "score_" + dataset;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

// Of the mean over datasets, which are independent samples; absent where one of them has no error.
std::optional<double> overall_error(const std::vector<DatasetScore>& groups) {
  double squares = 0.0;
  for (const DatasetScore& group : groups) {
    const auto error = standard_error(group.scores);
    if (!error) return std::nullopt;
    squares += *error * *error;
  }
  return std::sqrt(squares) / static_cast<double>(groups.size());
}

double overall_score(const std::vector<DatasetScore>& groups) {
  std::vector<double> means;
  means.reserve(groups.size());
  for (const DatasetScore& group : groups) means.push_back(group.mean_score());
  return mean(means);
}

Json datasets_json(const std::vector<DatasetScore>& groups) {
  Json rows = Json::array();
  for (const DatasetScore& group : groups) {
    const auto error = standard_error(group.scores);
    const auto n = static_cast<double>(group.scores.size());
    rows.push_back({{"name", group.name},
                    {"metric", group.dataset->metric->name},
                    {"samples", group.scores.size()},
                    {"score", group.mean_score()},
                    {"score_stderr", error ? Json(*error) : Json()},
                    {"prompt_tokens_mean", static_cast<double>(group.prompt_tokens) / n},
                    {"truncated", group.truncated}});
  }
  return rows;
}

Json samples_json(const std::vector<QaAnswer>& answers) {
  Json rows = Json::array();
  for (const QaAnswer& answer : answers) {
    const QaItem& item = *answer.item;
    rows.push_back({{"dataset", item.sample->dataset},
                    {"id", item.sample->id},
                    {"score", 100.0 * answer.score},
                    {"output", answer.output},
                    {"prompt_tokens", item.ids.size()},
                    {"question_tokens", item.ids.size() - item.question_begin},
                    {"whole_tokens", item.whole_tokens},
                    {"truncated", item.truncated},
                    {"kept", answer.kept},
                    {"generated", answer.generated},
                    {"finish", answer.stopped ? "stop" : "length"}});
  }
  return rows;
}

Json dataset_names(const QaInput& input) {
  Json names = Json::array();
  for (const QaItem& item : input.items) {
    const std::string& name = item.sample->dataset;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

// With the error of paired differences: what is hard is hard for both.
Metric difference_metric(const std::vector<QaAnswer>& answers, double score,
                         const std::optional<QaBaseline>& full) {
  if (!full) return missing_metric("score_minus_full", "%", "policy full was not run");
  std::optional<double> error;
  if (full->answers.size() == answers.size()) {
    std::vector<QaAnswer> differences = answers;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      differences[i].score -= full->answers[i].score;
    }
    error = overall_error(by_dataset(differences));
  }
  return sampled_metric("score_minus_full", score - full->score, "%",
                        static_cast<std::int64_t>(answers.size()), error);
}

double rate(std::int64_t tokens, double seconds) {
  return seconds > 0.0 ? static_cast<double>(tokens) / seconds : 0.0;
}

}  // namespace

RunRecord describe_qa(const QaRequest& request, const QaInput& input,
                      const ConfiguredPolicy& configured, const Model& model,
                      const Backend& backend) {
  Json config = run_config("qa", request, configured, model);
  config.update({{"data_sha256", input.data.content_sha256},
                 {"prompts_sha256", input.prompts.sha256},
                 {"datasets", dataset_names(input)},
                 {"samples_per_dataset", request.samples},
                 {"max_length", request.max_length},
                 {"question", request.question_hidden ? "hidden" : "visible"},
                 {"bos", input.bos},
                 {"specials", request.specials == SpecialTokens::parse ? "parse" : "text"},
                 {"chat", input.frame.chat}});
  if (input.frame.chat) config["chat_frame"] = {input.frame.before, input.frame.after};
  RunRecord record = start_record(config, request, configured, model, backend);
  record.data_name = input.data.name;
  record.data_path = input.data.path;
  record.data_sha256 = input.data.content_sha256;
  record.data_documents = static_cast<std::int64_t>(input.items.size());
  record.data_bytes = input.data.bytes;
  record.warnings.insert(record.warnings.end(), input.warnings.begin(), input.warnings.end());
  return record;
}

double qa_score(const std::vector<QaAnswer>& answers) {
  return overall_score(by_dataset(answers));
}

void add_qa_metrics(const QaMeasured& measured, const std::optional<QaBaseline>& full,
                    RunRecord& record) {
  const std::vector<DatasetScore> groups = by_dataset(measured.answers);
  const auto n = static_cast<std::int64_t>(measured.answers.size());
  const double score = overall_score(groups);
  std::vector<double> kept;
  std::int64_t truncated = 0;
  for (const QaAnswer& answer : measured.answers) {
    kept.push_back(answer.kept);
    truncated += answer.item->truncated ? 1 : 0;
  }
  std::int64_t prompt_tokens = 0;
  for (const DatasetScore& group : groups) prompt_tokens += group.prompt_tokens;
  record.metrics = {
      sampled_metric("score", score, "%", n, overall_error(groups)),
      difference_metric(measured.answers, score, full),
      count_metric("samples", n, ""),
      count_metric("samples_truncated", truncated, ""),
      real_metric("prompt_tokens_mean", static_cast<double>(prompt_tokens) / static_cast<double>(n),
                  "tokens"),
      real_metric("kept_mean", mean(kept), "entries"),
      real_metric("prefill_tokens_per_s", rate(measured.prefill_tokens, measured.prefill_seconds),
                  "1/s"),
      real_metric("decode_tokens_per_s", rate(measured.decode_tokens, measured.decode_seconds),
                  "1/s"),
      count_metric("kv_bytes_peak", measured.kv_bytes_peak, "B"),
      count_metric("peak_rss_bytes", peak_rss_bytes(), "B"),
      count_metric("evictions", measured.evicted, "entries"),
      count_metric("ties_at_cut", measured.ties_at_cut, "entries"),
  };
  for (const DatasetScore& group : groups) {
    record.metrics.push_back(sampled_metric(metric_name(group.name), group.mean_score(), "%",
                                            static_cast<std::int64_t>(group.scores.size()),
                                            standard_error(group.scores)));
  }
  if (measured.kivi) {
    record.metrics.push_back(count_metric("quantised_rows", measured.quantised_rows, "rows"));
  }
  record.timings = {{"load", measured.load_seconds},
                    {"tokenize", measured.tokenize_seconds},
                    {"prefill", measured.prefill_seconds},
                    {"decode", measured.decode_seconds}};
  record.details_json = dump_json(
      Json{{"datasets", datasets_json(groups)}, {"samples", samples_json(measured.answers)}});
}

}  // namespace kvbench
