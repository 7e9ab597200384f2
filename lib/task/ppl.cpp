// The perplexity task. Scoring is teacher forced: what is fed next is always the text's own token,
// and the evicted cache feeds every later prediction.
#include "task/ppl.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "backend/registry.hpp"
#include "config/config_hash.hpp"
#include "core/error.hpp"
#include "engine/session.hpp"
#include "metric/perplexity.hpp"
#include "model/model.hpp"
#include "report/progress.hpp"

namespace kvbench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What is measured beside the losses of one policy.
struct Measured {
  double seconds = 0.0;
  std::int64_t tokens_fed = 0;
  std::int64_t evicted = 0;
  std::int64_t kv_bytes_live = 0;       // at the end of the last segment
  std::int64_t kv_bytes_allocated = 0;  // likewise
  std::int64_t kv_bytes_full = 0;       // of a full cache at that point
  std::int64_t kv_bytes_peak = 0;
  std::int64_t kv_bytes_peak_allocated = 0;
};

class PplTask {
 public:
  explicit PplTask(const PplRequest& request);

  // Policies that cannot be built are the request's fault: known before anything is loaded.
  std::vector<RunRecord> run(const std::function<void(const RunRecord&)>& finished);

 private:
  RunRecord run_policy(const ConfiguredPolicy& configured);
  void score(Session& session, PerplexityMeter& meter, Measured& measured, Progress& progress);
  void score_segment(Session& session, const Segment& segment, std::int64_t position,
                     std::size_t document, PerplexityMeter& meter, Measured& measured,
                     Progress& progress);
  void note_cache(const Session& session, Measured& measured) const;
  void describe(const ConfiguredPolicy& configured, RunRecord& record) const;
  void add_metrics(const PerplexityResult& result, const Measured& measured,
                   const PolicyTraits& traits, RunRecord& record);
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
  if (request.documents == DocumentMode::carry && request.protocol != "stream") {
    config_error("--documents carry goes with protocol stream, not {}", request.protocol);
  }
  auto start = Clock::now();
  source_ = read_tokens(request.tokens, request.model);
  tokenize_seconds_ = seconds_since(start);
  start = Clock::now();
  backend_ = make_backend(request.backend, request.threads);
  model_.emplace(Model::load(request.model, *backend_, request.dtype));
  load_seconds_ = seconds_since(start);
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
  RunRecord record;
  describe(configured, record);
  try {
    reset_peak_rss();
    Session session(
        *model_, *backend_, *configured.policy,
        {.chunk = request_.chunk, .kv_dtype = request_.kv_dtype, .seed = request_.seed});
    PerplexityMeter meter;
    Measured measured;
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
    add_metrics(result, measured, configured.policy->traits(), record);
  } catch (const Error& error) {
    record.ok = false;
    record.reason = error.what();
    record.exit_code = error.exit_code();
    record.metrics = {missing_metric("ppl", "", error.what())};
  }
  return record;
}

void PplTask::score(Session& session, PerplexityMeter& meter, Measured& measured,
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
      if (!carry) measured.evicted += session.evicted_entries();
      note_cache(session, measured);
    }
  }
  if (carry) measured.evicted = session.evicted_entries();
}

// The last token of a segment is a target only: nothing after it is scored.
void PplTask::score_segment(Session& session, const Segment& segment, std::int64_t position,
                            std::size_t document, PerplexityMeter& meter, Measured& measured,
                            Progress& progress) {
  const std::span<const std::int32_t> ids(segment.ids);
  const std::size_t n = ids.size() - 1;
  std::vector<double> nll;
  for (std::size_t begin = 0; begin < n;) {
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
    progress.update(measured.tokens_fed);
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

void PplTask::note_cache(const Session& session, Measured& measured) const {
  const KvCache& cache = session.cache();
  measured.kv_bytes_live = cache.live_bytes();
  measured.kv_bytes_allocated = cache.allocated_bytes();
  measured.kv_bytes_full =
      session.tokens_fed() * model_->config().kv_bytes_per_token(request_.kv_dtype);
  measured.kv_bytes_peak = std::max(measured.kv_bytes_peak, cache.peak_live_bytes());
  measured.kv_bytes_peak_allocated =
      std::max(measured.kv_bytes_peak_allocated, cache.peak_allocated_bytes());
}

void PplTask::describe(const ConfiguredPolicy& configured, RunRecord& record) const {
  const PolicyTraits& traits = configured.policy->traits();
  Json options = Json::object();
  for (const auto& [key, value] : configured.options) options[key] = value;
  Json config = {
      {"task", "ppl"},
      {"model_sha256", model_->content_hash()},
      {"data_sha256", source_.sha256},
      {"policy_name", configured.name},
      {"policy_options", options},
      {"protocol", request_.protocol},
      {"documents_mode", request_.documents == DocumentMode::carry ? "carry" : "reset"},
      {"max_tokens", request_.tokens.max_tokens},
      {"bos", source_.bos},
      {"specials", request_.tokens.specials == SpecialTokens::parse ? "parse" : "text"},
      {"newline", newline_name(request_.tokens.corpus.newline)},
      {"evict", traits.evict == EvictWhen::before ? "before" : "after"},
      {"positions", traits.positions == PositionMode::original ? "original" : "cache_index"},
      {"chunk", request_.chunk},
      {"compute_dtype", dtype_name(request_.dtype)},
      {"kv_dtype", dtype_name(request_.kv_dtype)},
      {"kvbench_version", read_environment().kvbench_version},
      {"seed", request_.seed},
  };
  if (protocol_.has_window) {
    config["window"] = request_.protocol_options.window;
    config["stride"] = request_.protocol_options.stride;
    config["prefix_id"] = request_.protocol_options.prefix_id;
  }
  if (model_->config().slides()) config["model_sliding_window"] = *model_->config().window_of(0);
  record.task = "ppl";
  record.started_at = utc_now();
  record.config_json = config.dump();
  record.config_hash = config_hash_of_text(record.config_json);
  record.model_path = request_.model;
  record.model_sha256 = model_->content_hash();
  record.model_dtype = dtype_name(model_->storage_dtype());
  record.data_name = source_.name;
  record.data_path = source_.path;
  record.data_sha256 = source_.sha256;
  record.data_documents = static_cast<std::int64_t>(source_.documents.size());
  record.data_bytes = source_.bytes;
  record.policy = configured.text;
  record.policy_json = options.dump();
  record.seed = request_.seed;
  record.dtype = dtype_name(request_.dtype);
  record.backend = backend_->name();
  record.threads = backend_->threads();
  record.environment = read_environment();
  record.warnings = model_->warnings();
  record.warnings.insert(record.warnings.end(), source_.warnings.begin(), source_.warnings.end());
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

void PplTask::add_metrics(const PerplexityResult& result, const Measured& measured,
                          const PolicyTraits& traits, RunRecord& record) {
  const std::int64_t n = result.tokens_scored;
  std::optional<double> to_full;
  if (full_ppl_) to_full = result.ppl / *full_ppl_;
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
      count_metric("documents_scored", result.documents_scored, ""),
      count_metric("documents_skipped", result.documents_skipped, ""),
  };
  if (traits.capacity < kUnlimited) {
    record.metrics.push_back(count_metric("capacity", traits.capacity, "entries"));
  }
  record.timings = {
      {"load", load_seconds_}, {"tokenize", tokenize_seconds_}, {"score", measured.seconds}};
  record.details_json =
      Json{{"curve", curve_json(result)}, {"documents", documents_json(result)}}.dump();
}

}  // namespace

std::vector<RunRecord> run_ppl(const PplRequest& request,
                               const std::function<void(const RunRecord&)>& finished) {
  return PplTask(request).run(finished);
}

}  // namespace kvbench
