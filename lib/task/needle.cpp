// The needle task: every prompt of the plan under every policy.
#include "task/needle.hpp"

#include <algorithm>
#include <optional>

#include "cache/kivi_store.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "model/model_config.hpp"
#include "report/progress.hpp"
#include "task/needle_plan.hpp"
#include "task/needle_probe.hpp"
#include "task/needle_record.hpp"
#include "task/policy_list.hpp"
#include "task/run_record.hpp"

namespace kvbench {
namespace {

// Text and tokenizer; the haystack's own documents never begin with a BOS.
TokenSource read_haystack(const NeedleRequest& request, TaskContext& context) {
  TokenRequest haystack = request.haystack;
  haystack.bos = "none";
  return context.tokens(haystack, request.model);
}

class NeedleRun {
 public:
  NeedleRun(const NeedleRequest& request, TaskContext& context);

  std::vector<RunRecord> run();

 private:
  void check_lengths() const;
  void run_policy(const ConfiguredPolicy& configured, RunRecord& record);
  void note_warnings(const NeedleMeasured& measured, const ConfiguredPolicy& configured,
                     RunRecord& record) const;
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
    const auto prompt = std::ssize(item.prompt.context) + std::ssize(item.prompt.question);
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

std::vector<RunRecord> NeedleRun::run() {
  std::vector<RunRecord> records;
  for (const ConfiguredPolicy& configured : policies_) {
    RunRecord record =
        describe_needle(request_, configured, model(), source_, plan_, *loaded_.backend);
    if (context_.find_done(record) != nullptr) continue;
    context_.load(request_);
    run_policy(configured, record);
    context_.finish(record);
    records.push_back(std::move(record));
  }
  return records;
}

void NeedleRun::run_policy(const ConfiguredPolicy& configured, RunRecord& record) {
  run_guarded(record, "accuracy", [&] {
    NeedleProbe probe(model(), *loaded_.backend, *configured.policy, request_.session_options());
    NeedleMeasured measured;
    measured.load_seconds = loaded_.load_seconds;
    measured.plan_seconds = plan_seconds_;
    measured.kv_bytes_per_token = model().config().kv_bytes_per_token(request_.kv_dtype);
    Progress progress(configured.text, "prompts", std::ssize(plan_.items), context_.quiet);
    for (const NeedleItem& item : plan_.items) {
      ProbeResult result = probe.ask({.context = item.prompt.context,
                                      .question = item.prompt.question,
                                      .reply = item.reply,
                                      .needles = item.asked,
                                      .stop_ids = source_.tokenizer->eos_ids(),
                                      .new_tokens = item.new_tokens,
                                      .hidden = request_.hidden});
      measured.answers.push_back(judge_answer(item, std::move(result), *source_.tokenizer));
      progress.update(std::ssize(measured.answers));
    }
    progress.finish();
    note_warnings(measured, configured, record);
    add_needle_metrics(measured, record);
  });
}

void NeedleRun::note_warnings(const NeedleMeasured& measured, const ConfiguredPolicy& configured,
                              RunRecord& record) const {
  std::int64_t evicted = 0;
  std::int64_t repeats = 1;
  for (const NeedleAnswer& answer : measured.answers) {
    evicted += answer.probe.evicted;
    repeats = std::max(repeats, answer.item->prompt.haystack_repeats);
  }
  note_idle(evicted, configured, request_.strict, record);
  if (repeats > 1) {
    record.warnings.push_back(fmt::format(
        "the haystack is shorter than the prompts: its text was begun up to {} times", repeats));
  }
  const std::int64_t most = model().config().max_positions;
  const auto beyond = [&](const NeedleAnswer& answer) {
    return answer.probe.prompt_tokens + answer.item->new_tokens > most;
  };
  if (most > 0 && std::any_of(measured.answers.begin(), measured.answers.end(), beyond)) {
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
  for (const std::int64_t length : request.lengths) {
    estimate.tokens += length * prompts * std::ssize(request.policies);
    estimate.kv_bytes = std::max(estimate.kv_bytes, length * token_bytes);
  }
  return estimate;
}

std::vector<RunRecord> run_needle(const NeedleRequest& request, TaskContext& context) {
  check_needle(request);
  return NeedleRun(request, context).run();
}

}  // namespace kvbench
