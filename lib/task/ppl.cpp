// The perplexity task. Scoring is teacher forced: what is fed next is always the text's own token,
// and the evicted cache feeds every later prediction.
#include "task/ppl.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <optional>

#include "backend/registry.hpp"
#include "cache/kivi_store.hpp"
#include "core/error.hpp"
#include "engine/session.hpp"
#include "metric/perplexity.hpp"
#include "model/model.hpp"
#include "report/progress.hpp"
#include "task/kv_record.hpp"
#include "task/ppl_record.hpp"

namespace kvbench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void mark_failed(RunRecord& record, const Error& error) {
  record.ok = false;
  record.reason = error.what();
  record.exit_code = error.exit_code();
  record.metrics = {missing_metric("ppl", "", error.what())};
}

class PplTask {
 public:
  explicit PplTask(const PplRequest& request);

  // Policies that cannot be built are the request's fault: known before anything is loaded.
  std::vector<RunRecord> run(const std::function<void(const RunRecord&)>& finished);

 private:
  void check_protocol(const ConfiguredPolicy& configured) const;
  void check_memory(const ConfiguredPolicy& configured) const;
  RunRecord run_policy(const ConfiguredPolicy& configured);
  void score(Session& session, PerplexityMeter& meter, PplMeasured& measured, Progress& progress);
  void score_segment(Session& session, const Segment& segment, std::int64_t position,
                     std::size_t document, PerplexityMeter& meter, PplMeasured& measured,
                     Progress& progress);
  void note_cache(const Session& session, PplMeasured& measured) const;
  void set_text_sizes(PerplexityMeter& meter, std::size_t document, const Segment& segment,
                      std::int64_t& bytes, std::int64_t& words) const;
  std::int64_t tokens_to_feed() const;

  const PplRequest& request_;
  const PplProtocol& protocol_;
  std::vector<ConfiguredPolicy> policies_;
  std::unique_ptr<Backend> backend_;
  std::optional<Model> model_;
  TokenSource source_;
  double load_seconds_ = 0.0;
  double tokenize_seconds_ = 0.0;
  std::optional<double> full_ppl_;
};

PplTask::PplTask(const PplRequest& request)
    : request_(request), protocol_(find_ppl_protocol(request.protocol, request.protocol_options)) {
  if (request.policies.empty()) config_error("no policy: give --policy at least once");
  for (const std::string& text : request.policies) policies_.push_back(make_policy(text));
  for (const ConfiguredPolicy& configured : policies_) check_protocol(configured);
  if (request.documents == DocumentMode::carry && request.protocol != "stream") {
    config_error("--documents carry goes with protocol stream, not {}", request.protocol);
  }
  auto start = Clock::now();
  source_ = read_tokens(request.tokens, request.model);
  tokenize_seconds_ = seconds_since(start);
  start = Clock::now();
  backend_ = make_backend(request.backend, request.threads);
  model_.emplace(request.load_model(*backend_));
  load_seconds_ = seconds_since(start);
  if (request.kivi) check_kivi(*request.kivi, model_->config().head_dim, *backend_);
}

// A policy is never scored by a pass in which its eviction does not act.
void PplTask::check_protocol(const ConfiguredPolicy& configured) const {
  const PolicyTraits& traits = configured.policy->traits();
  const bool needs_prompt = !traits.kept && !traits.recompute_length &&
                            (traits.timing != EvictTiming::decode || traits.keep_share);
  if (needs_prompt && !protocol_.has_prompt) {
    config_error(
        "policy {} acts on prompts, and protocol {} has none: use --protocol continue --prompt N "
        "--score M, or the policy's timing=decode with a capacity",
        configured.text, protocol_.name);
  }
}

std::vector<RunRecord> PplTask::run(const std::function<void(const RunRecord&)>& finished) {
  std::vector<std::size_t> order(policies_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return policies_[i].name == "full"; });
  std::vector<RunRecord> records(policies_.size());
  for (const std::size_t i : order) {
    records[i] = run_policy(policies_[i]);
    finished(records[i]);
  }
  return records;
}

std::int64_t PplTask::tokens_to_feed() const {
  std::int64_t total = 0;
  for (const TokenDocument& document : source_.documents) {
    for (const Segment& segment : protocol_.cut(document.ids, request_.protocol_options)) {
      total += static_cast<std::int64_t>(segment.ids.size());
    }
  }
  return total;
}

RunRecord PplTask::run_policy(const ConfiguredPolicy& configured) {
  RunRecord record = describe_ppl(request_, protocol_, configured, *model_, source_, *backend_);
  try {
    check_memory(configured);
    reset_peak_rss();
    Session session(*model_, *backend_, *configured.policy, request_.session_options());
    PerplexityMeter meter;
    PplMeasured measured;
    measured.kivi = request_.kivi.has_value();
    Progress progress(configured.text, "tok", tokens_to_feed(), request_.quiet);
    score(session, meter, measured, progress);
    progress.finish();
    const PerplexityResult result = meter.result();
    if (configured.name == "full") full_ppl_ = result.ppl;
    const bool idle = measured.evicted == 0 && configured.name != "full";
    if (idle && request_.strict) {
      config_error("policy {} evicted nothing in {} tokens (--strict)", configured.text,
                   measured.tokens_fed);
    }
    if (idle)
      record.warnings.push_back("the policy evicted nothing: its numbers are those of full");
    if (request_.kivi && measured.quantised_rows == 0) {
      record.warnings.emplace_back(kNothingQuantised);
    }
    measured.load_seconds = load_seconds_;
    measured.tokenize_seconds = tokenize_seconds_;
    add_ppl_metrics(result, measured, configured.policy->traits(), full_ppl_, record);
  } catch (const Error& error) {
    mark_failed(record, error);
  } catch (const std::bad_alloc&) {
    mark_failed(record, DeviceError("out of memory"));
  }
  return record;
}

// A cache without a bound grows with the text: refuse what cannot fit, before it is tried.
void PplTask::check_memory(const ConfiguredPolicy& configured) const {
  if (configured.policy->traits().capacity < kUnlimited) return;
  std::int64_t longest = request_.documents == DocumentMode::carry ? source_.total_tokens() : 0;
  for (const TokenDocument& document : source_.documents) {
    for (const Segment& segment : protocol_.cut(document.ids, request_.protocol_options)) {
      longest = std::max(longest, static_cast<std::int64_t>(segment.ids.size()));
    }
  }
  const ModelConfig& config = model_->config();
  std::int64_t needed = longest * config.kv_bytes_per_token(request_.kv_dtype);
  if (request_.kivi && !protocol_.has_prompt) {  // a prompt waits in full precision
    const auto heads = static_cast<double>(longest * config.n_layers * config.n_kv_heads);
    needed = static_cast<std::int64_t>(heads * kivi_entry_bytes(*request_.kivi, config.head_dim));
  }
  const std::int64_t limit = usable_memory_bytes();
  if (limit > 0 && needed > limit) {
    device_error("the cache of {} tokens needs {} bytes, and this process may use {}", longest,
                 needed, limit);
  }
}

void PplTask::score(Session& session, PerplexityMeter& meter, PplMeasured& measured,
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
      note_cache(session, measured);
    }
  }
  if (!carry) return;
  measured.evicted = session.evicted_entries();
  measured.ties_at_cut = session.ties_at_cut();
  measured.quantised_rows = session.cache().quantised_rows();
}

// The last token of a segment is a target only: nothing after it is scored.
void PplTask::score_segment(Session& session, const Segment& segment, std::int64_t position,
                            std::size_t document, PerplexityMeter& meter, PplMeasured& measured,
                            Progress& progress) {
  const std::span<const std::int32_t> ids(segment.ids);
  const std::size_t n = ids.size() - 1;
  std::vector<double> nll;
  if (segment.prompt > 0) {
    const auto start = Clock::now();
    session.prefill(ids.first(segment.prompt), {}, {},
                    ids.subspan(segment.prompt, n - segment.prompt));
    measured.prefill_seconds += seconds_since(start);
    measured.prefill_tokens += static_cast<std::int64_t>(segment.prompt);
  }
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

void PplTask::set_text_sizes(PerplexityMeter& meter, std::size_t document, const Segment& segment,
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

void PplTask::note_cache(const Session& session, PplMeasured& measured) const {
  const KvCache& cache = session.cache();
  measured.kv_bytes_live = cache.live_bytes();
  measured.kv_bytes_allocated = cache.allocated_bytes();
  measured.kv_bytes_full =
      session.tokens_fed() * model_->config().kv_bytes_per_token(request_.kv_dtype);
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

std::vector<RunRecord> run_ppl(const PplRequest& request,
                               const std::function<void(const RunRecord&)>& finished) {
  return PplTask(request).run(finished);
}

}  // namespace kvbench
