// The perplexity task: policies one after another over the same segments.
#include "task/ppl.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "cache/kivi_store.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "metric/perplexity.hpp"
#include "model/model.hpp"
#include "model/model_config.hpp"
#include "report/progress.hpp"
#include "task/policy_list.hpp"
#include "task/policy_runs.hpp"
#include "task/ppl_record.hpp"
#include "task/ppl_scorer.hpp"
#include "task/run_record.hpp"
#include "task/shared_prompts.hpp"

namespace kvbench {
namespace {

// Of this process's memory, for prompts that policies to come will need.
constexpr std::int64_t kPromptShare = 4;  // a fourth

// A policy is never scored by a pass in which its eviction does not act.
void check_protocol(const PplProtocol& protocol, const ConfiguredPolicy& configured) {
  const PolicyTraits& traits = configured.policy->traits();
  const bool needs_prompt = !traits.kept && !traits.recompute_length &&
                            (traits.timing != EvictTiming::decode || traits.keep_share);
  if (needs_prompt && !protocol.has_prompt) {
    config_error(
        "policy {} acts on prompts, and protocol {} has none: use --protocol continue --prompt N "
        "--score M, or the policy's timing=decode with a capacity",
        configured.text, protocol.name);
  }
}

class PplRun {
 public:
  PplRun(const PplRequest& request, TaskContext& context);

  std::vector<RunRecord> run();

 private:
  void check_memory(const ConfiguredPolicy& configured) const;
  void run_policy(const ConfiguredPolicy& configured, RunRecord& record);
  void measure(const ConfiguredPolicy& configured, RunRecord& record);
  std::int64_t tokens_to_feed() const;
  const Model& model() const { return *loaded_.model; }

  const PplRequest& request_;
  const PplProtocol& protocol_;
  TaskContext& context_;
  std::vector<ConfiguredPolicy> policies_;
  double tokenize_seconds_ = 0.0;
  TokenSource source_;
  LoadedModel& loaded_;
  SharedPrompts prompts_;
  std::optional<double> full_ppl_;
};

PplRun::PplRun(const PplRequest& request, TaskContext& context)
    : request_(request),
      protocol_(find_ppl_protocol(request.protocol, request.protocol_options)),
      context_(context),
      policies_(make_policies(request.policies)),
      source_(
          timed(tokenize_seconds_, [&] { return context.tokens(request.tokens, request.model); })),
      loaded_(context.open(request)),
      prompts_(model(), *loaded_.backend, request.session_options(),
               usable_memory_bytes() / kPromptShare) {
  if (request.kivi) check_kivi(*request.kivi, model().config().head_dim, *loaded_.backend);
}

std::vector<RunRecord> PplRun::run() {
  return run_full_first(policies_, context_,
                        {.begin =
                             [&](std::span<const ConfiguredPolicy* const> pending) {
                               context_.load(request_);
                               for (const ConfiguredPolicy* policy : pending) {
                                 prompts_.add(policy->policy->traits());
                               }
                             },
                         .describe =
                             [&](const ConfiguredPolicy& policy) {
                               return describe_ppl(request_, protocol_, policy, model(), source_,
                                                   *loaded_.backend);
                             },
                         .run = [&](const ConfiguredPolicy& policy,
                                    RunRecord& record) { run_policy(policy, record); },
                         .done =
                             [&](const ConfiguredPolicy& policy, const IndexEntry& entry) {
                               if (policy.name == "full") full_ppl_ = number_in_row(entry, "ppl");
                             }});
}

std::int64_t PplRun::tokens_to_feed() const {
  std::int64_t total = 0;
  for (const TokenDocument& document : source_.documents) {
    for (const Segment& segment : protocol_.cut(document.ids, request_.protocol_options)) {
      total += static_cast<std::int64_t>(segment.ids.size());
    }
  }
  return total;
}

// Where memory runs out beside prompts that are held for other policies, it does so once.
void PplRun::run_policy(const ConfiguredPolicy& configured, RunRecord& record) {
  const RunRecord described = record;
  const auto measured = [&] { measure(configured, record); };
  if (run_guarded(record, "ppl", measured)) return;
  if (record.exit_code != DeviceError("").exit_code() || !prompts_.release()) return;
  record = described;
  run_guarded(record, "ppl", measured);
}

void PplRun::measure(const ConfiguredPolicy& configured, RunRecord& record) {
  check_memory(configured);
  reset_peak_rss();
  PplScorer scorer({request_, protocol_, source_, model(), *loaded_.backend, prompts_}, configured);
  PerplexityMeter meter;
  PplMeasured measured;
  measured.kivi = request_.kivi.has_value();
  Progress progress(configured.text, "tok", tokens_to_feed(), context_.quiet);
  scorer.run(meter, measured, progress);
  progress.finish();
  const PerplexityResult result = meter.result();
  if (configured.name == "full") full_ppl_ = result.ppl;
  note_idle(measured.evicted, configured, request_.strict, record);
  if (request_.kivi && measured.quantised_rows == 0) {
    record.warnings.emplace_back(kNothingQuantised);
  }
  if (measured.segments < request_.streams) {
    record.warnings.push_back(
        fmt::format("streams={}, but the text has {} segments to run side by side (protocols "
                    "continue and strided cut a document into several)",
                    request_.streams, measured.segments));
  }
  measured.load_seconds = loaded_.load_seconds;
  measured.tokenize_seconds = tokenize_seconds_;
  add_ppl_metrics(result, measured, configured.policy->traits(), full_ppl_, record);
}

// A cache without a bound grows with the text: refuse what cannot fit, before it is tried.
void PplRun::check_memory(const ConfiguredPolicy& configured) const {
  if (configured.policy->traits().capacity < kUnlimited) return;
  std::int64_t longest = request_.documents == DocumentMode::carry ? source_.total_tokens() : 0;
  for (const TokenDocument& document : source_.documents) {
    for (const Segment& segment : protocol_.cut(document.ids, request_.protocol_options)) {
      longest = std::max(longest, static_cast<std::int64_t>(segment.ids.size()));
    }
  }
  const ModelConfig& config = model().config();
  std::int64_t needed = longest * config.kv_bytes_per_token(request_.kv_dtype);
  if (request_.kivi && !protocol_.has_prompt) {  // a prompt waits in full precision
    const auto heads = static_cast<double>(longest * config.n_layers * config.n_kv_heads);
    needed = static_cast<std::int64_t>(heads * kivi_entry_bytes(*request_.kivi, config.head_dim));
  }
  const std::string what =
      request_.streams == 1 ? fmt::format("the cache of {} tokens needs", longest)
                            : fmt::format("{} caches of {} tokens need", request_.streams, longest);
  check_fits(needed * request_.streams, what);
}

}  // namespace

void check_ppl(const PplRequest& request) {
  const PplProtocol& protocol = find_ppl_protocol(request.protocol, request.protocol_options);
  if (request.policies.empty()) config_error("no policy: give --policy at least once");
  for (const ConfiguredPolicy& configured : make_policies(request.policies)) {
    check_protocol(protocol, configured);
    check_streams(request.streams, configured);
  }
  if (request.documents == DocumentMode::carry && request.protocol != "stream") {
    config_error("--documents carry goes with protocol stream, not {}", request.protocol);
  }
  if (request.documents == DocumentMode::carry && request.streams > 1) {
    config_error("--streams {}: under --documents carry the text is a single sequence",
                 request.streams);
  }
}

TaskEstimate estimate_ppl(const PplRequest& request, TaskContext& context) {
  check_ppl(request);
  const PplProtocol& protocol = find_ppl_protocol(request.protocol, request.protocol_options);
  const TokenSource source = context.tokens(request.tokens, request.model);
  const std::int64_t token_bytes =
      read_model_config(request.model).kv_bytes_per_token(request.kv_dtype);
  std::int64_t tokens = 0;
  std::int64_t prompts = 0;
  std::int64_t longest = request.documents == DocumentMode::carry ? source.total_tokens() : 0;
  for (const TokenDocument& document : source.documents) {
    for (const Segment& segment : protocol.cut(document.ids, request.protocol_options)) {
      tokens += static_cast<std::int64_t>(segment.ids.size());
      prompts += static_cast<std::int64_t>(segment.prompt);
      longest = std::max(longest, static_cast<std::int64_t>(segment.ids.size()));
    }
  }
  TaskEstimate estimate;
  for (const ConfiguredPolicy& configured : make_policies(request.policies)) {
    const PolicyTraits& traits = configured.policy->traits();
    const bool whole = protocol.has_prompt || traits.capacity >= longest;
    const std::int64_t held = whole ? longest : traits.capacity + request.chunk;
    estimate.tokens += tokens * traits.recompute_length.value_or(1);
    estimate.prompt_tokens += prompts;
    const bool selects = !traits.kept && traits.timing == EvictTiming::decode;
    const bool single = !traits.recompute_length && (selects || request.kivi.has_value());
    estimate.single_tokens += single ? tokens - prompts : 0;
    estimate.kv_bytes = std::max(estimate.kv_bytes, request.streams * held * token_bytes);
  }
  return estimate;
}

std::vector<RunRecord> run_ppl(const PplRequest& request, TaskContext& context) {
  check_ppl(request);
  return PplRun(request, context).run();
}

}  // namespace kvbench
