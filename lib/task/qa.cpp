// The question task: prompts are compressed by the policy, answers decoded greedily from what it
// left. Every policy computes its own prompts: most look at the forward itself.
#include "task/qa.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>

#include "cache/kivi_store.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "engine/generate.hpp"
#include "engine/session.hpp"
#include "report/environment.hpp"
#include "report/progress.hpp"
#include "task/policy_list.hpp"
#include "task/policy_runs.hpp"
#include "task/qa_record.hpp"
#include "task/run_record.hpp"

namespace kvbench {
namespace {

std::int64_t longest_prompt(const QaInput& input) {
  std::size_t longest = 0;
  for (const QaItem& item : input.items) longest = std::max(longest, item.ids.size());
  return static_cast<std::int64_t>(longest);
}

std::int64_t total_prompt_tokens(const QaInput& input) {
  std::int64_t total = 0;
  for (const QaItem& item : input.items) total += static_cast<std::int64_t>(item.ids.size());
  return total;
}

class QaRun {
 public:
  QaRun(const QaRequest& request, TaskContext& context);

  std::vector<RunRecord> run();

 private:
  void check_lengths();
  void check_memory(const ConfiguredPolicy& configured) const;
  void run_policy(const ConfiguredPolicy& configured, RunRecord& record);
  void answer_all(const ConfiguredPolicy& configured, QaMeasured& measured);
  QaAnswer answer_named(Session& session, const QaItem& item, QaMeasured& measured);
  QaAnswer answer(Session& session, const QaItem& item, QaMeasured& measured);
  std::string text_of(const std::vector<std::int32_t>& ids) const;
  double kept_entries(const KvCache& cache) const;
  std::vector<std::int32_t> stop_ids(const QaDataset& dataset) const;
  const Model& model() const { return *loaded_.model; }

  const QaRequest& request_;
  TaskContext& context_;
  std::vector<ConfiguredPolicy> policies_;
  double tokenize_seconds_ = 0.0;
  std::unique_ptr<QaInput> input_;
  LoadedModel& loaded_;
  std::optional<QaBaseline> full_;
};

QaRun::QaRun(const QaRequest& request, TaskContext& context)
    : request_(request),
      context_(context),
      policies_(make_policies(request.policies)),
      input_(timed(tokenize_seconds_, [&] { return read_qa_input(request); })),
      loaded_(context.open(request)) {
  if (request.kivi) check_kivi(*request.kivi, model().config().head_dim, *loaded_.backend);
  check_lengths();
}

void QaRun::check_lengths() {
  const std::int64_t most = model().config().max_positions;
  std::int64_t longer = 0;
  for (const QaItem& item : input_->items) {
    const auto end = static_cast<std::int64_t>(item.ids.size()) + item.dataset->max_new_tokens;
    if (most > 0 && end > most) ++longer;
  }
  if (longer == 0) return;
  input_->warnings.push_back(fmt::format(
      "{} of {} prompts with their answers are longer than the {} positions of the model; "
      "--max-length N takes the middle out",
      longer, input_->items.size(), most));
}

std::vector<RunRecord> QaRun::run() {
  return run_full_first(policies_, context_,
                        {.begin = [&](auto) { context_.load(request_); },
                         .describe =
                             [&](const ConfiguredPolicy& policy) {
                               return describe_qa(request_, *input_, policy, model(),
                                                  *loaded_.backend);
                             },
                         .run = [&](const ConfiguredPolicy& policy,
                                    RunRecord& record) { run_policy(policy, record); },
                         .done =
                             [&](const ConfiguredPolicy& policy, const IndexEntry& entry) {
                               const auto score = number_in_row(entry, "score");
                               if (policy.name == "full" && score) full_ = {*score, {}};
                             }});
}

void QaRun::run_policy(const ConfiguredPolicy& configured, RunRecord& record) {
  run_guarded(record, "score", [&] {
    check_memory(configured);
    reset_peak_rss();
    QaMeasured measured;
    measured.kivi = request_.kivi.has_value();
    measured.load_seconds = loaded_.load_seconds;
    measured.tokenize_seconds = tokenize_seconds_;
    answer_all(configured, measured);
    note_idle(measured.evicted, configured, request_.strict, record);
    if (request_.kivi && measured.quantised_rows == 0) {
      record.warnings.emplace_back(kNothingQuantised);
    }
    if (configured.name == "full") full_ = {qa_score(measured.answers), measured.answers};
    add_qa_metrics(measured, full_, record);
  });
}

// A prompt is held whole until it is compressed: refuse what cannot fit, before it is tried.
void QaRun::check_memory(const ConfiguredPolicy& configured) const {
  const PolicyTraits& traits = configured.policy->traits();
  if (traits.capacity < kUnlimited && (traits.kept || traits.recompute_length)) return;
  const std::int64_t longest = longest_prompt(*input_);
  const std::int64_t needed = longest * model().config().kv_bytes_per_token(request_.kv_dtype);
  check_fits(needed, fmt::format("the cache of a prompt of {} tokens needs", longest));
}

void QaRun::answer_all(const ConfiguredPolicy& configured, QaMeasured& measured) {
  Session session(model(), *loaded_.backend, *configured.policy, request_.session_options());
  Progress progress(configured.text, "tok", total_prompt_tokens(*input_), context_.quiet);
  std::int64_t done = 0;
  for (const QaItem& item : input_->items) {
    QaAnswer found = answer_named(session, item, measured);
    found.score = best_score(*item.dataset->metric, item.dataset->scored_part(found.output),
                             item.sample->answers, item.sample->classes);
    measured.answers.push_back(std::move(found));
    measured.evicted += session.evicted_entries();
    measured.ties_at_cut += session.ties_at_cut();
    measured.quantised_rows += session.cache().quantised_rows();
    measured.kv_bytes_peak = std::max(measured.kv_bytes_peak, session.cache().peak_live_bytes());
    done += static_cast<std::int64_t>(item.ids.size());
    progress.update(done);
  }
}

// What stops one sample names it.
QaAnswer QaRun::answer_named(Session& session, const QaItem& item, QaMeasured& measured) {
  try {
    return answer(session, item, measured);
  } catch (const Error& error) {
    throw Error(error.exit_code(), fmt::format("{}: {}", item.sample->where, error.what()));
  }
}

QaAnswer QaRun::answer(Session& session, const QaItem& item, QaMeasured& measured) {
  const std::span<const std::int32_t> ids(item.ids);
  const std::size_t cut = request_.question_hidden ? item.question_begin : ids.size();
  const std::span<const std::int32_t> question = ids.subspan(cut);
  std::vector<std::int32_t> future(question.begin(), question.end());
  future.insert(future.end(), item.answer.begin(), item.answer.end());

  QaAnswer found;
  found.item = &item;
  session.begin(static_cast<std::int64_t>(ids.size()) + item.dataset->max_new_tokens);
  auto start = Clock::now();
  session.prefill(ids.first(cut), {}, {}, future);
  measured.prefill_seconds += seconds_since(start);
  measured.prefill_tokens += static_cast<std::int64_t>(cut);
  found.kept = kept_entries(session.cache());

  start = Clock::now();
  if (!question.empty()) session.feed(question);
  const std::vector<std::int32_t> stops = stop_ids(*item.dataset);
  const Generation generation =
      generate_greedy(session, {.max_new_tokens = item.dataset->max_new_tokens,
                                .stop_ids = stops,
                                .min_new_tokens = item.dataset->stop_at_newline ? 1 : 0});
  measured.decode_seconds += seconds_since(start);
  found.generated = static_cast<std::int64_t>(generation.ids.size());
  measured.decode_tokens += static_cast<std::int64_t>(question.size()) + found.generated;
  found.stopped = generation.stopped;
  found.output = text_of(generation.ids);
  return found;
}

// A model may have more rows than its tokenizer has ids. Those stand for no text, and the reference
// library leaves them out.
std::string QaRun::text_of(const std::vector<std::int32_t>& ids) const {
  const std::int32_t known = input_->tokenizer->vocab_size();
  std::vector<std::int32_t> spelled;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(spelled),
               [&](std::int32_t id) { return id < known; });
  return input_->tokenizer->decode(spelled, /*skip_special=*/true);
}

double QaRun::kept_entries(const KvCache& cache) const {
  const ModelConfig& config = model().config();
  std::int64_t entries = 0;
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    for (std::int64_t kv_head = 0; kv_head < config.n_kv_heads; ++kv_head) {
      entries += cache.length(layer, kv_head);
    }
  }
  return static_cast<double>(entries) / static_cast<double>(config.n_layers * config.n_kv_heads);
}

// The model's, the tokenizer's and, where the dataset says so, the token of a line break.
std::vector<std::int32_t> QaRun::stop_ids(const QaDataset& dataset) const {
  std::vector<std::int32_t> stops = model().config().stop_ids;
  const auto& more = input_->tokenizer->eos_ids();
  stops.insert(stops.end(), more.begin(), more.end());
  if (dataset.stop_at_newline) {
    const auto newline = input_->tokenizer->encode("\n");
    if (!newline.empty()) stops.push_back(newline.back());
  }
  return stops;
}

}  // namespace

void check_qa(const QaRequest& request) {
  if (request.policies.empty()) config_error("no policy: give --policy at least once");
  make_policies(request.policies);
  read_qa_prompts(request.prompts);
  if (request.max_length == 1) {
    config_error("--max-length: expected 0 (any length) or at least 2, found 1");
  }
}

TaskEstimate estimate_qa(const QaRequest& request) {
  check_qa(request);
  const std::unique_ptr<QaInput> input = read_qa_input(request);
  const std::int64_t token_bytes =
      read_model_config(request.model).kv_bytes_per_token(request.kv_dtype);
  std::int64_t tokens = 0;
  for (const QaItem& item : input->items) {
    tokens += static_cast<std::int64_t>(item.ids.size()) + item.dataset->max_new_tokens;
  }
  TaskEstimate estimate;
  for (const ConfiguredPolicy& configured : make_policies(request.policies)) {
    estimate.tokens += tokens * configured.policy->traits().recompute_length.value_or(1);
  }
  estimate.kv_bytes = longest_prompt(*input) * token_bytes;
  return estimate;
}

std::vector<RunRecord> run_qa(const QaRequest& request, TaskContext& context) {
  check_qa(request);
  return QaRun(request, context).run();
}

}  // namespace kvbench
