// The perplexity task. Scoring is teacher forced: what is fed next is always the text's own token,
// and the evicted cache feeds every later prediction.
#include "task/ppl.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "cache/kivi_store.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "engine/session.hpp"
#include "metric/perplexity.hpp"
#include "model/model.hpp"
#include "model/model_config.hpp"
#include "report/progress.hpp"
#include "task/policy_list.hpp"
#include "task/policy_runs.hpp"
#include "task/ppl_record.hpp"
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
  void score(Session& session, PerplexityMeter& meter, PplMeasured& measured, Progress& progress);
  void run_prompt(Session& session, std::span<const std::int32_t> ids, std::size_t length,
                  PplMeasured& measured);
  void score_segment(Session& session, const Segment& segment, std::int64_t position,
                     std::size_t document, PerplexityMeter& meter, PplMeasured& measured,
                     Progress& progress);
  void note_cache(const Session& session, PplMeasured& measured) const;
  void set_text_sizes(PerplexityMeter& meter, std::size_t document, const Segment& segment,
                      std::int64_t& bytes, std::int64_t& words) const;
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
  Session session(model(), *loaded_.backend, *configured.policy, request_.session_options());
  PerplexityMeter meter;
  PplMeasured measured;
  measured.kivi = request_.kivi.has_value();
  Progress progress(configured.text, "tok", tokens_to_feed(), context_.quiet);
  score(session, meter, measured, progress);
  progress.finish();
  const PerplexityResult result = meter.result();
  if (configured.name == "full") full_ppl_ = result.ppl;
  const bool idle = measured.evicted == 0 && configured.name != "full";
  if (idle && request_.strict) {
    config_error("policy {} evicted nothing in {} tokens (--strict)", configured.text,
                 measured.tokens_fed);
  }
  if (idle) record.warnings.emplace_back(kNothingEvicted);
  if (request_.kivi && measured.quantised_rows == 0) {
    record.warnings.emplace_back(kNothingQuantised);
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
  check_fits(needed, fmt::format("the cache of {} tokens needs", longest));
}

void PplRun::score(Session& session, PerplexityMeter& meter, PplMeasured& measured,
                   Progress& progress) {
  const bool carry = request_.documents == DocumentMode::carry;
  if (carry) session.begin(source_.total_tokens());
  const TokenDocument* before = nullptr;
  for (const TokenDocument& document : source_.documents) {
    const std::size_t index = meter.begin_document(document.name);
    // Laid end to end, a document's last token is context of the next one, though no target of it.
    if (carry && before != nullptr && !before->ids.empty()) session.feed({&before->ids.back(), 1});
    before = &document;
    std::int64_t bytes = 0;
    std::int64_t words = 0;
    for (const Segment& segment : protocol_.cut(document.ids, request_.protocol_options)) {
      if (segment.ids.size() < 2) continue;
      if (!carry) session.begin(static_cast<std::int64_t>(segment.ids.size()));
      score_segment(session, segment, segment.first_position, index, meter, measured, progress);
      set_text_sizes(meter, index, segment, bytes, words);
      if (!carry) {
        measured.evicted += session.evicted_entries();
        measured.ties_at_cut += session.ties_at_cut();
        measured.quantised_rows += session.cache().quantised_rows();
      }
      if (segment.prompt == 0) measured.kept.push_back(session.cache().mean_length());
      note_cache(session, measured);
    }
  }
  if (!carry) return;
  measured.evicted = session.evicted_entries();
  measured.ties_at_cut = session.ties_at_cut();
  measured.quantised_rows = session.cache().quantised_rows();
}

// The last token of a segment is a target only: nothing after it is scored.
void PplRun::score_segment(Session& session, const Segment& segment, std::int64_t position,
                           std::size_t document, PerplexityMeter& meter, PplMeasured& measured,
                           Progress& progress) {
  const std::span<const std::int32_t> ids(segment.ids);
  const std::size_t n = ids.size() - 1;
  std::vector<double> nll;
  if (segment.prompt > 0) run_prompt(session, ids.first(n), segment.prompt, measured);
  for (std::size_t begin = segment.prompt; begin < n;) {
    // Up to the first scored token nothing is scored; then a chunk at a time, so that the
    // progress line moves.
    const std::size_t unscored = segment.first_scored - 1;
    const bool warm_up = begin < unscored;
    const std::size_t end =
        std::min(warm_up ? unscored : n, begin + static_cast<std::size_t>(request_.chunk));
    const auto part = ids.subspan(begin, end - begin);
    nll.resize(warm_up ? 0 : part.size());
    const auto start = Clock::now();
    session.feed(part, ids.subspan(begin + 1, nll.size()), nll);
    measured.seconds += seconds_since(start);
    measured.tokens_fed += static_cast<std::int64_t>(part.size());
    meter.add(document, position + static_cast<std::int64_t>(begin) + 1, nll);
    progress.update(measured.prefill_tokens + measured.tokens_fed);
    begin = end;
  }
}

// ids: the prompt, and what will be fed after it.
void PplRun::run_prompt(Session& session, std::span<const std::int32_t> ids, std::size_t length,
                        PplMeasured& measured) {
  const auto prompt = ids.first(length);
  const auto future = ids.subspan(length);
  const SharedPrompt* shared =
      prompts_.find(measured.prompts++, prompt, std::ssize(ids) + 1, session.traits());
  const auto start = Clock::now();
  if (shared != nullptr) {
    session.prefill_from(*shared->twin, prompt, future);
    measured.prefill_seconds += shared->seconds;
    measured.shared_prefill_seconds += shared->seconds;
  } else {
    session.prefill(prompt, {}, {}, future);
  }
  measured.prefill_seconds += seconds_since(start);
  measured.prefill_tokens += std::ssize(prompt);
  measured.kept.push_back(session.cache().mean_length());
}

void PplRun::set_text_sizes(PerplexityMeter& meter, std::size_t document, const Segment& segment,
                            std::int64_t& bytes, std::int64_t& words) const {
  if (source_.tokenizer == nullptr) return;
  const std::span<const std::int32_t> scored =
      std::span<const std::int32_t>(segment.ids).subspan(segment.first_scored);
  for (const std::int32_t id : scored) {
    bytes += static_cast<std::int64_t>(source_.tokenizer->token_bytes(id).size());
  }
  words += count_words(source_.tokenizer->decode(scored));
  meter.set_text_size(document, bytes, words);
}

void PplRun::note_cache(const Session& session, PplMeasured& measured) const {
  const KvCache& cache = session.cache();
  measured.kv_bytes_live = cache.live_bytes();
  measured.kv_bytes_allocated = cache.allocated_bytes();
  measured.kv_bytes_full =
      session.tokens_fed() * model().config().kv_bytes_per_token(request_.kv_dtype);
  measured.kv_bytes_peak = std::max(measured.kv_bytes_peak, cache.peak_live_bytes());
  measured.kv_bytes_peak_allocated =
      std::max(measured.kv_bytes_peak_allocated, cache.peak_allocated_bytes());
  measured.kv_rows.assign(static_cast<std::size_t>(cache.shape().n_layers), {});
  for (std::size_t layer = 0; layer < measured.kv_rows.size(); ++layer) {
    for (std::int64_t kv_head = 0; kv_head < cache.shape().n_kv_heads; ++kv_head) {
      measured.kv_rows[layer].push_back(cache.length(static_cast<std::int64_t>(layer), kv_head));
    }
  }
}

}  // namespace

void check_ppl(const PplRequest& request) {
  const PplProtocol& protocol = find_ppl_protocol(request.protocol, request.protocol_options);
  if (request.policies.empty()) config_error("no policy: give --policy at least once");
  for (const ConfiguredPolicy& configured : make_policies(request.policies)) {
    check_protocol(protocol, configured);
  }
  if (request.documents == DocumentMode::carry && request.protocol != "stream") {
    config_error("--documents carry goes with protocol stream, not {}", request.protocol);
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
    estimate.kv_bytes = std::max(estimate.kv_bytes, held * token_bytes);
  }
  return estimate;
}

std::vector<RunRecord> run_ppl(const PplRequest& request, TaskContext& context) {
  check_ppl(request);
  return PplRun(request, context).run();
}

}  // namespace kvbench
