// The question task: prompts are compressed by the policy, answers decoded greedily from what it
// left. Policies that can take a prompt from the full cache are asked together, sample by sample.
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
#include "task/prompt_twin.hpp"
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

// One policy of the run, from its configuration to its record.
struct QaLane {
  const ConfiguredPolicy* configured = nullptr;
  RunRecord record;
  std::unique_ptr<Session> session;  // null once it has failed
  QaMeasured measured;
};

class QaRun {
 public:
  QaRun(const QaRequest& request, TaskContext& context);

  std::vector<RunRecord> run();

 private:
  void check_lengths();
  void check_memory(const ConfiguredPolicy& configured) const;
  std::vector<QaLane> pending_lanes();
  void run_lanes(const std::vector<QaLane*>& lanes, PromptTwin* twin);
  void ask(QaLane& lane, const QaItem& item, PromptTwin* twin);
  void finish(QaLane& lane);
  template <class Work>
  void guarded(QaLane& lane, const Work& work);
  void compress(QaLane& lane, const QaItem& item, std::size_t cut, PromptTwin* twin);
  QaAnswer answer(QaLane& lane, const QaItem& item, PromptTwin* twin);
  std::string text_of(const std::vector<std::int32_t>& ids) const;
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

std::vector<QaLane> QaRun::pending_lanes() {
  std::vector<QaLane> lanes;
  for (const ConfiguredPolicy& configured : policies_) {
    QaLane lane;
    lane.configured = &configured;
    lane.record = describe_qa(request_, *input_, configured, model(), *loaded_.backend);
    if (const IndexEntry* done = context_.find_done(lane.record)) {
      const auto score = number_in_row(*done, "score");
      if (configured.name == "full" && score) full_ = {*score, {}};
    } else {
      lanes.push_back(std::move(lane));
    }
  }
  return lanes;
}

std::vector<RunRecord> QaRun::run() {
  std::vector<QaLane> lanes = pending_lanes();
  if (lanes.empty()) return {};
  context_.load(request_);
  std::vector<const ConfiguredPolicy*> pending;
  pending.reserve(lanes.size());
  for (const QaLane& lane : lanes) pending.push_back(lane.configured);
  const PromptSharing sharing = share_prompts(model(), *loaded_.backend, request_.session_options(),
                                              pending, longest_prompt(*input_));
  for (std::size_t i = 0; i < sharing.groups.size(); ++i) {
    std::vector<QaLane*> group;
    for (const std::size_t lane : sharing.groups[i]) group.push_back(&lanes[lane]);
    run_lanes(group, sharing.twin_of(i));
  }
  std::vector<RunRecord> records;
  records.reserve(lanes.size());
  for (QaLane& lane : lanes) records.push_back(std::move(lane.record));
  return records;
}

// A policy that has failed leaves the run; the others go on.
template <class Work>
void QaRun::guarded(QaLane& lane, const Work& work) {
  if (!run_guarded(lane.record, "score", work)) lane.session.reset();
}

void QaRun::run_lanes(const std::vector<QaLane*>& lanes, PromptTwin* twin) {
  const std::string label = lanes.size() == 1 ? lanes[0]->configured->text : "qa";
  reset_peak_rss();
  for (QaLane* lane : lanes) {
    lane->record.started_at = utc_now();
    guarded(*lane, [&] {
      check_memory(*lane->configured);
      lane->session = std::make_unique<Session>(
          model(), *loaded_.backend, *lane->configured->policy, request_.session_options());
    });
  }
  Progress progress(label, "tok", total_prompt_tokens(*input_), context_.quiet);
  std::int64_t done = 0;
  for (const QaItem& item : input_->items) {
    for (QaLane* lane : lanes) {
      if (lane->session == nullptr) continue;
      guarded(*lane, [&] { ask(*lane, item, twin); });
      if (lanes.size() > 1 && lane->session != nullptr) lane->session->release();
    }
    done += static_cast<std::int64_t>(item.ids.size());
    progress.update(done);
  }
  progress.finish();
  for (QaLane* lane : lanes) finish(*lane);
}

void QaRun::finish(QaLane& lane) {
  if (lane.session != nullptr) {
    QaMeasured& measured = lane.measured;
    measured.kivi = request_.kivi.has_value();
    measured.load_seconds = loaded_.load_seconds;
    measured.tokenize_seconds = tokenize_seconds_;
    guarded(lane, [&] {
      note_idle(measured.evicted, *lane.configured, request_.strict, lane.record);
      if (request_.kivi && measured.quantised_rows == 0) {
        lane.record.warnings.emplace_back(kNothingQuantised);
      }
      if (lane.configured->name == "full") {
        full_ = {qa_score(measured.answers), measured.answers};
      }
      add_qa_metrics(measured, full_, lane.record);
    });
    lane.session.reset();
  }
  context_.finish(lane.record);
}

// A prompt is held whole until it is compressed: refuse what cannot fit, before it is tried.
void QaRun::check_memory(const ConfiguredPolicy& configured) const {
  const PolicyTraits& traits = configured.policy->traits();
  if (traits.capacity < kUnlimited && (traits.kept || traits.recompute_length)) return;
  const std::int64_t longest = longest_prompt(*input_);
  const std::int64_t needed = longest * model().config().kv_bytes_per_token(request_.kv_dtype);
  check_fits(needed, fmt::format("the cache of a prompt of {} tokens needs", longest));
}

// What stops one sample names it.
void QaRun::ask(QaLane& lane, const QaItem& item, PromptTwin* twin) {
  try {
    QaAnswer found = answer(lane, item, twin);
    found.score = best_score(*item.dataset->metric, item.dataset->scored_part(found.output),
                             item.sample->answers, item.sample->classes);
    lane.measured.answers.push_back(std::move(found));
  } catch (const Error& error) {
    throw Error(error.exit_code(), fmt::format("{}: {}", item.sample->where, error.what()));
  }
  const Session& session = *lane.session;
  QaMeasured& measured = lane.measured;
  measured.evicted += session.evicted_entries();
  measured.ties_at_cut += session.ties_at_cut();
  measured.quantised_rows += session.cache().quantised_rows();
  measured.kv_bytes_peak = std::max(measured.kv_bytes_peak, session.cache().peak_live_bytes());
}

// The first `cut` ids of the prompt. A pass that is shared counts for each policy.
void QaRun::compress(QaLane& lane, const QaItem& item, std::size_t cut, PromptTwin* twin) {
  const std::span<const std::int32_t> ids(item.ids);
  const std::span<const std::int32_t> question = ids.subspan(cut);
  std::vector<std::int32_t> future(question.begin(), question.end());
  future.insert(future.end(), item.answer.begin(), item.answer.end());
  const auto text_tokens = static_cast<std::int64_t>(ids.size()) + item.dataset->max_new_tokens;
  double shared_seconds = 0.0;
  Session* source = nullptr;
  if (twin != nullptr) {
    source = &twin->after(ids.first(cut), text_tokens);
    shared_seconds = twin->last_seconds();
  }
  const auto start = Clock::now();
  lane.session->begin(text_tokens);
  if (source != nullptr) {
    lane.session->prefill_from(*source, ids.first(cut), future);
  } else {
    lane.session->prefill(ids.first(cut), {}, {}, future);
  }
  lane.measured.prefill_seconds += seconds_since(start) + shared_seconds;
  lane.measured.prefill_tokens += static_cast<std::int64_t>(cut);
}

QaAnswer QaRun::answer(QaLane& lane, const QaItem& item, PromptTwin* twin) {
  const std::size_t cut = request_.question_hidden ? item.question_begin : item.ids.size();
  const auto question = std::span<const std::int32_t>(item.ids).subspan(cut);
  compress(lane, item, cut, twin);
  Session& session = *lane.session;
  QaAnswer found;
  found.item = &item;
  found.kept = session.cache().mean_length();

  const auto start = Clock::now();
  if (!question.empty()) session.feed(question);
  const std::vector<std::int32_t> stops = stop_ids(*item.dataset);
  const Generation generation =
      generate_greedy(session, {.max_new_tokens = item.dataset->max_new_tokens,
                                .stop_ids = stops,
                                .min_new_tokens = item.dataset->stop_at_newline ? 1 : 0});
  lane.measured.decode_seconds += seconds_since(start);
  found.generated = static_cast<std::int64_t>(generation.ids.size());
  lane.measured.decode_tokens += static_cast<std::int64_t>(question.size()) + found.generated;
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
  estimate.tokens = tokens * prompt_passes(make_policies(request.policies));
  estimate.kv_bytes = longest_prompt(*input) * token_bytes;
  return estimate;
}

std::vector<RunRecord> run_qa(const QaRequest& request, TaskContext& context) {
  check_qa(request);
  return QaRun(request, context).run();
}

}  // namespace kvbench
