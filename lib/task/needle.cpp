// The needle task: every prompt of the plan under every policy. Policies that can take a prompt
// from the full cache are asked together, prompt by prompt; the others run one after another.
#include "task/needle.hpp"

#include <algorithm>
#include <memory>
#include <span>

#include "cache/kivi_store.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "model/model_config.hpp"
#include "report/progress.hpp"
#include "task/needle_plan.hpp"
#include "task/needle_probe.hpp"
#include "task/needle_record.hpp"
#include "task/policy_list.hpp"
#include "task/prompt_twin.hpp"
#include "task/run_record.hpp"

namespace kvbench {
namespace {

// Text and tokenizer; the haystack's own documents never begin with a BOS.
TokenSource read_haystack(const NeedleRequest& request, TaskContext& context) {
  TokenRequest haystack = request.haystack;
  haystack.bos = "none";
  return context.tokens(haystack, request.model);
}

// One policy of the run, from its configuration to its record.
struct NeedleLane {
  const ConfiguredPolicy* configured = nullptr;
  RunRecord record;
  std::unique_ptr<NeedleProbe> probe;  // null once it has failed
  NeedleMeasured measured;
};

class NeedleRun {
 public:
  NeedleRun(const NeedleRequest& request, TaskContext& context);

  std::vector<RunRecord> run();

 private:
  void check_lengths() const;
  std::int64_t longest_prompt() const;
  std::vector<NeedleLane> pending_lanes() const;
  void run_lanes(const std::vector<NeedleLane*>& lanes, PromptTwin* twin);
  void ask(NeedleLane& lane, std::span<const NeedleItem> items);
  void finish(NeedleLane& lane, const PromptTwin* twin);
  void note_warnings(const NeedleLane& lane, RunRecord& record) const;
  template <class Work>
  void guarded(NeedleLane& lane, const Work& work);
  const Model& model() const { return *loaded_.model; }

  const NeedleRequest& request_;
  TaskContext& context_;
  std::vector<ConfiguredPolicy> policies_;
  Clock::time_point begun_ = Clock::now();
  TokenSource source_;
  NeedlePlan plan_;
  double plan_seconds_;
  LoadedModel& loaded_;
};

NeedleRun::NeedleRun(const NeedleRequest& request, TaskContext& context)
    : request_(request),
      context_(context),
      policies_(make_policies(request.policies)),
      source_(read_haystack(request, context)),
      plan_(plan_needles(request, source_, needle_frame(request.model, request.chat))),
      plan_seconds_(seconds_since(begun_)),
      loaded_(context.open(request)) {
  if (request.kivi) check_kivi(*request.kivi, model().config().head_dim, *loaded_.backend);
  check_lengths();
}

// A model that is asked past its context length fails for reasons of its own.
void NeedleRun::check_lengths() const {
  const std::int64_t most = model().config().max_positions;
  if (request_.allow_beyond_max || most == 0) return;
  for (const NeedleItem& item : plan_.items) {
    const std::int64_t prompt = std::ssize(item.prompt.context) + std::ssize(item.prompt.question);
    const char* advice = "shorten --lengths, or allow it with --allow-beyond-max";
    if (prompt > most) {
      config_error("the prompt is longer than the model's context: {} > {} ({})", prompt, most,
                   advice);
    }
    if (prompt + item.new_tokens > most) {
      config_error("prompt and answer are longer than the model's context: {} + {} = {} > {} ({})",
                   prompt, item.new_tokens, prompt + item.new_tokens, most, advice);
    }
  }
}

std::int64_t NeedleRun::longest_prompt() const {
  std::int64_t longest = 0;
  for (const NeedleItem& item : plan_.items) {
    longest = std::max(longest, std::ssize(item.prompt.context) + std::ssize(item.prompt.question));
  }
  return longest;
}

std::vector<NeedleLane> NeedleRun::pending_lanes() const {
  std::vector<NeedleLane> lanes;
  for (const ConfiguredPolicy& configured : policies_) {
    NeedleLane lane;
    lane.configured = &configured;
    lane.record = describe_needle(request_, configured, model(), source_, plan_, *loaded_.backend);
    if (context_.find_done(lane.record) == nullptr) lanes.push_back(std::move(lane));
  }
  return lanes;
}

std::vector<RunRecord> NeedleRun::run() {
  std::vector<NeedleLane> lanes = pending_lanes();
  if (lanes.empty()) return {};
  context_.load(request_);
  std::vector<const ConfiguredPolicy*> pending;
  pending.reserve(lanes.size());
  for (const NeedleLane& lane : lanes) pending.push_back(lane.configured);
  const PromptSharing sharing = share_prompts(model(), *loaded_.backend, request_.session_options(),
                                              pending, longest_prompt());
  for (std::size_t i = 0; i < sharing.groups.size(); ++i) {
    std::vector<NeedleLane*> group;
    for (const std::size_t lane : sharing.groups[i]) group.push_back(&lanes[lane]);
    run_lanes(group, sharing.twin_of(i));
  }
  std::vector<RunRecord> records;
  records.reserve(lanes.size());
  for (NeedleLane& lane : lanes) records.push_back(std::move(lane.record));
  return records;
}

// A policy that has failed leaves the run; the others go on.
template <class Work>
void NeedleRun::guarded(NeedleLane& lane, const Work& work) {
  if (!run_guarded(lane.record, "accuracy", work)) lane.probe.reset();
}

// Items whose context is compressed once stand one behind the other.
void NeedleRun::run_lanes(const std::vector<NeedleLane*>& lanes, PromptTwin* twin) {
  const std::string label = lanes.size() == 1 ? lanes[0]->configured->text : "needle";
  for (NeedleLane* lane : lanes) {
    lane->record.started_at = utc_now();
    guarded(*lane, [&] {
      lane->probe = std::make_unique<NeedleProbe>(
          model(), *loaded_.backend, *lane->configured->policy, request_.session_options(), twin);
    });
  }
  const std::span<const NeedleItem> items(plan_.items);
  Progress progress(label, "prompts", std::ssize(items), context_.quiet);
  for (std::size_t first = 0, end = 0; first < items.size(); first = end) {
    end = first + 1;
    while (end < items.size() && items[end].prompt.context == items[first].prompt.context) ++end;
    for (NeedleLane* lane : lanes) {
      if (lane->probe == nullptr) continue;
      guarded(*lane, [&] { ask(*lane, items.subspan(first, end - first)); });
      if (lanes.size() > 1 && lane->probe != nullptr) lane->probe->release();
    }
    progress.update(static_cast<std::int64_t>(end));
  }
  progress.finish();
  for (NeedleLane* lane : lanes) finish(*lane, twin);
}

void NeedleRun::ask(NeedleLane& lane, std::span<const NeedleItem> items) {
  for (const NeedleItem& item : items) {
    ProbeResult result = lane.probe->ask({.context = item.prompt.context,
                                          .question = item.prompt.question,
                                          .reply = item.reply,
                                          .needles = item.asked,
                                          .stop_ids = source_.tokenizer->eos_ids(),
                                          .new_tokens = item.new_tokens,
                                          .hidden = request_.hidden});
    lane.measured.answers.push_back(judge_answer(item, std::move(result), *source_.tokenizer));
  }
}

void NeedleRun::finish(NeedleLane& lane, const PromptTwin* twin) {
  if (lane.probe != nullptr) {
    lane.measured.load_seconds = loaded_.load_seconds;
    lane.measured.plan_seconds = plan_seconds_;
    lane.measured.twin_seconds = twin != nullptr ? twin->seconds() : 0.0;
    lane.measured.kv_bytes_per_token = model().config().kv_bytes_per_token(request_.kv_dtype);
    guarded(lane, [&] {
      note_warnings(lane, lane.record);
      add_needle_metrics(lane.measured, lane.record);
    });
    lane.probe.reset();
  }
  context_.finish(lane.record);
}

void NeedleRun::note_warnings(const NeedleLane& lane, RunRecord& record) const {
  const std::vector<NeedleAnswer>& answers = lane.measured.answers;
  std::int64_t evicted = 0;
  std::int64_t repeats = 1;
  for (const NeedleAnswer& answer : answers) {
    evicted += answer.probe.evicted;
    repeats = std::max(repeats, answer.item->prompt.haystack_repeats);
  }
  note_idle(evicted, *lane.configured, request_.strict, record);
  if (repeats > 1) {
    record.warnings.push_back(fmt::format(
        "the haystack is shorter than the prompts: its text was begun up to {} times", repeats));
  }
  const std::int64_t most = model().config().max_positions;
  const auto beyond = [&](const NeedleAnswer& answer) {
    return answer.probe.prompt_tokens + answer.item->new_tokens > most;
  };
  if (most > 0 && std::any_of(answers.begin(), answers.end(), beyond)) {
    record.warnings.push_back(
        fmt::format("prompts and answers are longer than the model's context of {} tokens", most));
  }
}

}  // namespace

void check_needle(const NeedleRequest& request) {
  if (request.policies.empty()) config_error("no policy: give --policy at least once");
  make_policies(request.policies);
  if (request.lengths.empty() || request.depths.empty() || request.templates.empty()) {
    config_error("a needle run needs at least one length, one depth and one template");
  }
  bool sentence = false;
  for (const std::string& name : request.templates) {
    const NeedleTemplate& row = find_needle_template(name);
    sentence = sentence || row.name == "sentence";
    Rng rng(request.seed);
    check_needle_case(row.name, row.make(rng, request.own));
  }
  if (request.own.given() && !sentence) {
    config_error("a needle of your own goes with --template sentence");
  }
}

TaskEstimate estimate_needle(const NeedleRequest& request) {
  check_needle(request);
  std::int64_t prompts = 0;
  for (const std::string& name : request.templates) {
    Rng rng(request.seed);
    const auto made = find_needle_template(name).make(rng, request.own);
    prompts += request.repeats * std::ssize(made.questions) *
               (std::ssize(request.depths) + (request.control ? 1 : 0));
  }
  TaskEstimate estimate;
  const std::int64_t token_bytes =
      read_model_config(request.model).kv_bytes_per_token(request.kv_dtype);
  const std::int64_t passes = prompt_passes(make_policies(request.policies));
  for (const std::int64_t length : request.lengths) {
    estimate.tokens += length * prompts * passes;
    estimate.kv_bytes = std::max(estimate.kv_bytes, length * token_bytes);
  }
  return estimate;
}

std::vector<RunRecord> run_needle(const NeedleRequest& request, TaskContext& context) {
  check_needle(request);
  return NeedleRun(request, context).run();
}

}  // namespace kvbench
