// Timing of sessions. Each repetition begins with an empty cache; the policies take turns.
#include "task/bench.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "backend/profiling_backend.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/rng.hpp"
#include "core/stats.hpp"
#include "engine/stream_batch.hpp"
#include "report/json_reporter.hpp"
#include "report/progress.hpp"
#include "task/machine_peaks.hpp"
#include "task/op_shares.hpp"
#include "task/policy_list.hpp"
#include "task/run_record.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

// All repetitions at one depth.
struct DepthTimes {
  std::vector<double> prefill;      // [repeats * streams] seconds
  std::vector<double> first_token;  // [repeats * streams] seconds, the prefill included
  std::vector<double> decode;       // [repeats * steps] seconds per token of each stream
  std::int64_t kv_bytes_live = 0;   // at the end, of all streams
  std::int64_t kv_bytes_allocated = 0;
  std::int64_t kv_bytes_peak = 0;
  std::int64_t evicted = 0;
};

// One policy of the run; without a record it is done already.
struct Contender {
  ConfiguredPolicy configured;
  RunRecord record;
  std::vector<DepthTimes> depths;  // [depths]
  std::vector<OpProfile> prefill_profile, decode_profile;
  std::int64_t peak_rss = 0;
  bool wanted = true;
};

std::vector<std::int32_t> random_ids(std::int64_t n, std::int64_t vocab_size, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < n; ++i) {
    ids.push_back(static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(vocab_size))));
  }
  return ids;
}

Json depth_json(std::int64_t depth, std::int64_t streams, const DepthTimes& times) {
  const auto ms = [](double seconds) { return 1e3 * seconds; };
  return {{"depth", depth},
          {"prefill_tokens_per_s", static_cast<double>(depth) / percentile(times.prefill, 0.5)},
          {"first_token_ms", ms(percentile(times.first_token, 0.5))},
          {"decode_tokens_per_s", static_cast<double>(streams) / percentile(times.decode, 0.5)},
          {"decode_ms_p50", ms(percentile(times.decode, 0.5))},
          {"decode_ms_p95", ms(percentile(times.decode, 0.95))},
          {"kv_bytes_live", times.kv_bytes_live},
          {"kv_bytes_allocated", times.kv_bytes_allocated},
          {"kv_bytes_peak", times.kv_bytes_peak}};
}

class BenchRun {
 public:
  BenchRun(const BenchRequest& request, TaskContext& context);
  std::vector<RunRecord> run();

 private:
  void repeat(Contender& contender, bool counted);
  void time_depth(Contender& contender, std::size_t depth, bool counted);
  void profile(Contender& contender);
  StreamBatch make_streams(const Contender& contender, Backend& backend) const;
  template <class Prefilled>
  void prefill(StreamBatch& streams, std::int64_t prompt, Prefilled prefilled);
  void decode(StreamBatch& streams, std::int64_t position);
  void finish(Contender& contender, const std::optional<double>& full_decode);
  std::span<const std::int32_t> tokens(std::int64_t first, std::int64_t n) const {
    return std::span<const std::int32_t>(ids_).subspan(static_cast<std::size_t>(first),
                                                       static_cast<std::size_t>(n));
  }

  const BenchRequest& request_;
  TaskContext& context_;
  LoadedModel& loaded_;
  MachinePeaks peaks_;
  std::vector<std::int32_t> ids_;
  std::vector<float> logits_;             // [streams, vocab_size]
  std::vector<StreamBatch::Turn> turns_;  // of a step; kept for its memory
  std::vector<Contender> contenders_;
};

BenchRun::BenchRun(const BenchRequest& request, TaskContext& context)
    : request_(request),
      context_(context),
      loaded_(context.open(request)),
      ids_(random_ids(*std::ranges::max_element(request.depths) + request.steps,
                      loaded_.model->config().vocab_size, request.seed)),
      logits_(static_cast<std::size_t>(request.streams * loaded_.model->config().vocab_size)) {
  for (ConfiguredPolicy& configured : make_policies(request.policies)) {
    Json config = run_config("bench", request, configured, *loaded_.model);
    config.update({{"depths", request.depths},
                   {"steps", request.steps},
                   {"repeats", request.repeats},
                   {"threads", loaded_.backend->threads()},
                   {"backend", loaded_.backend->name()}});
    if (request.streams > 1) config["streams"] = request.streams;
    Contender contender;
    contender.record = start_record(config, request, configured, *loaded_.model, *loaded_.backend);
    contender.record.data_name = "random tokens";
    contender.record.streams = static_cast<int>(request.streams);
    contender.wanted = context.find_done(contender.record) == nullptr;
    contender.configured = std::move(configured);
    contender.depths.resize(request.depths.size());
    contenders_.push_back(std::move(contender));
  }
}

std::vector<RunRecord> BenchRun::run() {
  if (std::ranges::none_of(contenders_, &Contender::wanted)) return {};
  context_.load(request_);
  peaks_ = measure_peaks(*loaded_.backend, request_.dtype);
  const auto rounds = request_.repeats + 1;
  Progress progress("bench", "round", rounds * static_cast<std::int64_t>(contenders_.size()),
                    context_.quiet);
  std::int64_t done = 0;
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (Contender& contender : contenders_) {
      if (contender.wanted && contender.record.ok) repeat(contender, round > 0);
      progress.update(++done);
    }
  }
  progress.finish();
  // Other work on the machine disturbs a peak as it does a run, and only ever lowers it.
  peaks_ = best_of(peaks_, measure_peaks(*loaded_.backend, request_.dtype));
  std::optional<double> full_decode;
  for (Contender& contender : contenders_) {
    if (!contender.wanted || !contender.record.ok) continue;
    profile(contender);
    if (contender.configured.name == "full") {
      full_decode = percentile(contender.depths.back().decode, 0.5);
    }
  }
  std::vector<RunRecord> records;
  for (Contender& contender : contenders_) {
    if (!contender.wanted) continue;
    if (contender.record.ok) finish(contender, full_decode);
    context_.finish(contender.record);
    records.push_back(std::move(contender.record));
  }
  return records;
}

void BenchRun::repeat(Contender& contender, bool counted) {
  run_guarded(contender.record, "decode_tokens_per_s", [&] {
    reset_peak_rss();
    for (std::size_t i = 0; i < request_.depths.size(); ++i) time_depth(contender, i, counted);
    contender.peak_rss = std::max(contender.peak_rss, peak_rss_bytes());
  });
}

StreamBatch BenchRun::make_streams(const Contender& contender, Backend& backend) const {
  return {*loaded_.model, backend, request_.streams,
          [&] { return make_policy(contender.configured.text).policy; },
          request_.session_options()};
}

// One stream after another. `prefilled` gets the seconds of each prompt, and those until its first
// token was known.
template <class Prefilled>
void BenchRun::prefill(StreamBatch& streams, std::int64_t prompt, Prefilled prefilled) {
  const auto first_logits =
      std::span<float>(logits_).first(static_cast<std::size_t>(loaded_.model->config().vocab_size));
  for (std::int64_t stream = 0; stream < streams.size(); ++stream) {
    Session& session = streams.session(stream);
    session.begin(prompt + request_.steps);
    const auto start = Clock::now();
    session.prefill(tokens(0, prompt), {}, {}, tokens(prompt, request_.steps));
    loaded_.backend->synchronize();
    const double seconds = seconds_since(start);
    session.last_logits(first_logits);
    prefilled(seconds, seconds_since(start));
  }
}

// The next token of every stream, and the logits after it.
void BenchRun::decode(StreamBatch& streams, std::int64_t position) {
  turns_.clear();
  for (std::int64_t stream = 0; stream < streams.size(); ++stream) {
    turns_.push_back({.stream = stream, .ids = tokens(position, 1)});
  }
  streams.feed(turns_);
  streams.last_logits(logits_);
}

void BenchRun::time_depth(Contender& contender, std::size_t depth, bool counted) {
  const std::int64_t prompt = request_.depths[depth];
  StreamBatch streams = make_streams(contender, *loaded_.backend);
  DepthTimes& times = contender.depths[depth];
  prefill(streams, prompt, [&](double seconds, double first_token) {
    if (!counted) return;
    times.prefill.push_back(seconds);
    times.first_token.push_back(first_token);
  });
  for (std::int64_t step = 0; step < request_.steps; ++step) {
    const auto before = Clock::now();
    decode(streams, prompt + step);
    if (counted) times.decode.push_back(seconds_since(before));
  }
  times.kv_bytes_live = times.kv_bytes_allocated = times.kv_bytes_peak = times.evicted = 0;
  for (std::int64_t stream = 0; stream < streams.size(); ++stream) {
    const KvCache& cache = streams.session(stream).cache();
    times.kv_bytes_live += cache.live_bytes();
    times.kv_bytes_allocated += cache.allocated_bytes();
    times.kv_bytes_peak += cache.peak_live_bytes();
    times.evicted += streams.session(stream).evicted_entries();
  }
}

// At the last depth, apart from the timed repetitions.
void BenchRun::profile(Contender& contender) {
  ProfilingBackend profiling(*loaded_.backend);
  StreamBatch streams = make_streams(contender, profiling);
  const std::int64_t prompt = request_.depths.back();
  profiling.clear();
  prefill(streams, prompt, [](double, double) {});
  contender.prefill_profile.assign(profiling.profile().begin(), profiling.profile().end());
  profiling.clear();
  for (std::int64_t step = 0; step < request_.steps; ++step) decode(streams, prompt + step);
  contender.decode_profile.assign(profiling.profile().begin(), profiling.profile().end());
}

double bytes_of(std::span<const OpProfile> profile) {
  double bytes = 0.0;
  for (const OpProfile& entry : profile) bytes += entry.bytes;
  return bytes;
}

double flops_of(std::span<const OpProfile> profile) {
  double flops = 0.0;
  for (const OpProfile& entry : profile) flops += entry.flops;
  return flops;
}

void BenchRun::finish(Contender& contender, const std::optional<double>& full_decode) {
  RunRecord& record = contender.record;
  const DepthTimes& deepest = contender.depths.back();
  const auto depth = static_cast<double>(request_.depths.back());
  const double decode = percentile(deepest.decode, 0.5);
  const double prefill = percentile(deepest.prefill, 0.5);
  const auto streams = static_cast<double>(request_.streams);
  const double bytes_per_s =
      bytes_of(contender.decode_profile) / static_cast<double>(request_.steps) / decode;
  const double flops_per_s = flops_of(contender.prefill_profile) / streams / prefill;
  const auto n = static_cast<std::int64_t>(deepest.decode.size());
  std::vector<double> rates;
  for (const double seconds : deepest.prefill) rates.push_back(depth / seconds);
  record.metrics = {
      sampled_metric("prefill_tokens_per_s", depth / prefill, "1/s",
                     static_cast<std::int64_t>(rates.size()), standard_error(rates)),
      real_metric("first_token_ms", 1e3 * percentile(deepest.first_token, 0.5), "ms"),
      sampled_metric("decode_tokens_per_s", streams / decode, "1/s", n, std::nullopt),
      real_metric("decode_ms_p50", 1e3 * decode, "ms"),
      real_metric("decode_ms_p95", 1e3 * percentile(deepest.decode, 0.95), "ms"),
      full_decode ? real_metric("decode_speedup", *full_decode / decode, "")
                  : missing_metric("decode_speedup", "", "policy full was not run"),
      count_metric("kv_bytes_live", deepest.kv_bytes_live, "B"),
      count_metric("kv_bytes_allocated", deepest.kv_bytes_allocated, "B"),
      count_metric("kv_bytes_peak", deepest.kv_bytes_peak, "B"),
      count_metric("peak_rss_bytes", contender.peak_rss, "B"),
      count_metric("weight_bytes", loaded_.model->weight_bytes(), "B"),
      real_metric("decode_gb_per_s", bytes_per_s / 1e9, "GB/s"),
      real_metric("decode_share_of_peak", bytes_per_s / peaks_.read_bytes_per_s, ""),
      real_metric("prefill_gflop_per_s", flops_per_s / 1e9, "GFLOP/s"),
      real_metric("prefill_share_of_peak", flops_per_s / peaks_.flops_per_s, ""),
      real_metric("peak_read_gb_per_s", peaks_.read_bytes_per_s / 1e9, "GB/s"),
      real_metric("peak_gflop_per_s", peaks_.flops_per_s / 1e9, "GFLOP/s"),
      count_metric("evictions", deepest.evicted, "entries"),
  };
  note_idle(deepest.evicted, contender.configured, /*strict=*/false, record);
  record.timings = {{"load", loaded_.load_seconds}};
  Json depths = Json::array();
  for (std::size_t i = 0; i < contender.depths.size(); ++i) {
    depths.push_back(depth_json(request_.depths[i], request_.streams, contender.depths[i]));
  }
  record.details_json = dump_json(Json{{"depths", depths}});
  add_profile("prefill_profile", contender.prefill_profile, record);
  add_profile("decode_profile", contender.decode_profile, record);
}

}  // namespace

void check_bench(const BenchRequest& request) {
  if (request.policies.empty()) config_error("no policy: give --policy at least once");
  for (const ConfiguredPolicy& configured : make_policies(request.policies)) {
    check_streams(request.streams, configured);
  }
  if (request.depths.empty()) config_error("--depths: expected at least one");
}

std::vector<RunRecord> run_bench(const BenchRequest& request, TaskContext& context) {
  check_bench(request);
  return BenchRun(request, context).run();
}

}  // namespace kvbench
