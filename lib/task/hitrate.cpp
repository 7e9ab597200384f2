// The hit-rate task. All sessions read the same tokens; the policies' steps run a block ahead of
// the twin's, so that what they held is known when its attention is.
#include "task/hitrate.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "engine/generate.hpp"
#include "engine/step_weights.hpp"
#include "engine/twin_policy.hpp"
#include "model/model_config.hpp"
#include "report/progress.hpp"
#include "task/hit_lane.hpp"
#include "task/hitrate_record.hpp"
#include "task/policy_list.hpp"
#include "task/run_record.hpp"

namespace kvbench {
namespace {

// One policy of the run, from its configuration to its record.
struct HitEntry {
  const ConfiguredPolicy* configured = nullptr;
  RunRecord record;
  std::unique_ptr<HitLane> lane;  // null once it has failed
  std::unique_ptr<HitMeasured> measured;
  bool shared = false;  // takes the twin's prompt over
};

// Compares each row of the twin's attention with what every policy holds.
class HitObserver final : public LayerHook {
 public:
  HitObserver(Backend& backend, const HitRateOptions& options, std::vector<HitEntry>& entries)
      : weights_(backend), row_(options), entries_(entries) {}

  // The next forward of the twin: steps [first, ...) of a text whose positions [0, counted) count.
  // `numbered_from`: steps of the texts before.
  void expect(std::int64_t first, std::int64_t counted, std::int64_t numbered_from) {
    first_ = first;
    counted_ = counted;
    numbered_from_ = numbered_from;
  }

  void after_attention(const LayerState& state, KvCache&) override {
    weights_.read(state);
    const AttentionArgs& attention = state.attention;
    const std::int64_t group = attention.n_heads / std::ssize(attention.kv);
    for (std::int64_t token = 0; token < attention.n_tokens; ++token) {
      const std::int64_t position = attention.q_positions[token];
      for (std::int64_t head = 0; head < attention.n_heads; ++head) {
        row_.read(weights_.row(head, token).first(static_cast<std::size_t>(position + 1)),
                  counted_);
        for (HitEntry& entry : entries_) {
          if (entry.lane == nullptr) continue;
          const KeptSet kept =
              entry.lane->kept(first_ + token, position, state.layer, head / group);
          entry.measured->meter.add(state.layer, head, numbered_from_ + first_ + token, row_, kept);
        }
      }
    }
  }

 private:
  StepWeights weights_;
  AttentionRow row_;
  std::vector<HitEntry>& entries_;
  std::int64_t first_ = 0;
  std::int64_t counted_ = 0;
  std::int64_t numbered_from_ = 0;
};

class HitRateRun {
 public:
  HitRateRun(const HitRateRequest& request, TaskContext& context);

  std::vector<RunRecord> run();

 private:
  void prepare_entries();
  void check_memory() const;
  void run_segment(Session& twin, HitObserver& observer, HitSegment& segment);
  void continue_greedily(Session& twin, HitSegment& segment) const;
  void run_block(Session& twin, HitObserver& observer, const HitText& text, std::int64_t first,
                 std::int64_t count);
  void note_end(const HitText& text, std::int64_t context);
  void finish(HitEntry& entry);
  template <class Work>
  void guarded(HitEntry& entry, const Work& work);
  const Model& model() const { return *loaded_.model; }

  const HitRateRequest& request_;
  TaskContext& context_;
  std::vector<ConfiguredPolicy> policies_;
  TwinMeasured shared_;
  TokenSource source_;
  LoadedModel& loaded_;
  std::vector<HitSegment> segments_;
  std::vector<HitEntry> entries_;  // those that are not done yet
  TwinPolicy twin_policy_;
};

HitRateRun::HitRateRun(const HitRateRequest& request, TaskContext& context)
    : request_(request),
      context_(context),
      policies_(make_policies(request.policies)),
      source_(timed(shared_.tokenize_seconds,
                    [&] { return context.tokens(request.tokens, request.model); })),
      loaded_(context.open(request)),
      segments_(cut_segments(request, source_)) {}

// A policy that has failed leaves the run; the others go on.
template <class Work>
void HitRateRun::guarded(HitEntry& entry, const Work& work) {
  if (entry.lane == nullptr) return;
  const auto start = Clock::now();
  if (run_guarded(entry.record, "hit_rate", work)) {
    entry.measured->seconds += seconds_since(start);
  } else {
    entry.lane.reset();
  }
}

void HitRateRun::prepare_entries() {
  const ModelConfig& config = model().config();
  for (const ConfiguredPolicy& configured : policies_) {
    HitEntry entry;
    entry.configured = &configured;
    entry.record = describe_hitrate(request_, configured, model(), source_, *loaded_.backend);
    if (context_.find_done(entry.record) != nullptr) continue;
    shared_.load_seconds = context_.load(request_).load_seconds;
    entry.measured =
        std::make_unique<HitMeasured>(config.n_layers, config.n_heads, request_.counting);
    run_guarded(entry.record, "hit_rate", [&] {
      entry.lane = std::make_unique<HitLane>(model(), *loaded_.backend, configured,
                                             request_.session_options(), request_.nll);
      entry.shared = twin_policy_.add(configured.policy->traits());
    });
    entries_.push_back(std::move(entry));
  }
}

// The twin's cache, and for a moment a copy of its prompt.
void HitRateRun::check_memory() const {
  std::int64_t longest = 0;
  for (const HitSegment& segment : segments_) {
    longest = std::max(longest, std::ssize(segment.prompt) + request_.steps);
  }
  const std::int64_t needed = 2 * longest * model().config().kv_bytes_per_token(request_.kv_dtype);
  check_fits(needed, fmt::format("two caches of {} tokens need", longest));
}

std::vector<RunRecord> HitRateRun::run() {
  check_memory();
  prepare_entries();
  std::vector<RunRecord> records;
  if (entries_.empty()) return records;
  Session twin(model(), *loaded_.backend, twin_policy_, request_.session_options());
  HitObserver observer(*loaded_.backend, request_.counting, entries_);
  Progress progress("hitrate", "segment", std::ssize(segments_), context_.quiet);
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    run_segment(twin, observer, segments_[i]);
    progress.update(static_cast<std::int64_t>(i) + 1);
  }
  progress.finish();
  for (HitEntry& entry : entries_) {
    guarded(entry, [&] { finish(entry); });
    context_.finish(entry.record);
    records.push_back(std::move(entry.record));
  }
  return records;
}

void HitRateRun::run_segment(Session& twin, HitObserver& observer, HitSegment& segment) {
  auto start = Clock::now();
  twin.begin(std::ssize(segment.prompt) + request_.steps);
  twin.prefill(segment.prompt, {}, {});
  shared_.prompt_seconds += seconds_since(start);
  start = Clock::now();
  if (request_.greedy) continue_greedily(twin, segment);
  shared_.step_seconds += seconds_since(start);
  const HitText text{segment.prompt, segment.inputs, segment.targets};
  for (HitEntry& entry : entries_) {
    guarded(entry, [&] { entry.lane->begin(text, twin, entry.shared); });
  }
  const std::int64_t learned = model().sinks().count();
  const std::int64_t counted = std::ssize(text.prompt) + learned - request_.tail;
  const std::int64_t block = StepWeights::tokens_per_step(
      model().config().n_heads, std::ssize(text.prompt) + learned + request_.steps, request_.chunk);
  const auto before = std::ssize(shared_.nll);
  for (std::int64_t first = 0; first < request_.steps; first += block) {
    observer.expect(first, counted, before);
    run_block(twin, observer, text, first, std::min(block, request_.steps - first));
  }
  note_end(text, segment.context + learned);
}

// The last token is a target only, as in a text.
void HitRateRun::continue_greedily(Session& twin, HitSegment& segment) const {
  std::vector<float> after_prompt(static_cast<std::size_t>(model().config().vocab_size));
  twin.last_logits(after_prompt);
  const std::int64_t prompt = twin.tokens_fed();
  const std::vector<std::int32_t> ids =
      generate_greedy(twin, {.max_new_tokens = request_.steps + 1}).ids;
  segment.inputs.assign(ids.begin(), ids.end() - 1);
  segment.targets.assign(ids.begin() + 1, ids.end());
  twin.rewind(prompt, after_prompt);
}

void HitRateRun::run_block(Session& twin, HitObserver& observer, const HitText& text,
                           std::int64_t first, std::int64_t count) {
  for (HitEntry& entry : entries_) {
    guarded(entry, [&] { entry.lane->feed(text, first, count); });
  }
  const auto start = Clock::now();
  const auto at = static_cast<std::size_t>(first);
  const auto n = static_cast<std::size_t>(count);
  std::vector<double> nll(n);
  twin.observe(&observer);
  twin.feed(text.inputs.subspan(at, n), text.targets.subspan(at, n), nll);
  twin.observe(nullptr);
  shared_.nll.insert(shared_.nll.end(), nll.begin(), nll.end());
  for (HitEntry& entry : entries_) {
    if (entry.lane != nullptr && entry.lane->takes_twin_losses()) entry.lane->add_losses(nll);
  }
  shared_.step_seconds += seconds_since(start);
}

// What is there at the last step's query, and of the context, where it is followed by questions.
void HitRateRun::note_end(const HitText& text, std::int64_t context) {
  const ModelConfig& config = model().config();
  const std::int64_t step = request_.steps - 1;
  const std::int64_t position = std::ssize(text.prompt) + model().sinks().count() + step;
  for (HitEntry& entry : entries_) {
    if (entry.lane == nullptr) continue;
    std::vector<std::vector<std::int32_t>> of_context;
    for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
      for (std::int64_t kv_head = 0; kv_head < config.n_kv_heads; ++kv_head) {
        const KeptSet kept = entry.lane->kept(step, position, layer, kv_head);
        entry.measured->entries += position + 1;
        entry.measured->entries_kept += std::ssize(kept.positions) + position + 1 - kept.all_from;
        if (!request_.questions.empty()) of_context.push_back(kept.before(context));
      }
    }
    if (!of_context.empty()) entry.measured->by_question.push_back(std::move(of_context));
  }
}

void HitRateRun::finish(HitEntry& entry) {
  HitMeasured& measured = *entry.measured;
  measured.nll = entry.lane->losses();
  note_idle(measured.entries - measured.entries_kept, *entry.configured, request_.strict,
            entry.record);
  add_hitrate_metrics(segments_, measured, shared_, entry.record);
}

}  // namespace

void check_hitrate(const HitRateRequest& request) {
  if (request.policies.empty()) config_error("no policy: give --policy at least once");
  make_policies(request.policies);
  if (request.prompt < 1 || request.steps < 1) {
    config_error("--prompt {} --steps {}: expected at least 1 token each", request.prompt,
                 request.steps);
  }
  if (request.tail >= request.prompt) {
    config_error("--tail {}: expected less than --prompt {}", request.tail, request.prompt);
  }
  if (request.counting.thetas.empty()) config_error("--theta: expected at least one number");
  if (!request.questions.empty() && !request.greedy) {
    config_error("--question goes with --source greedy: the text does not answer it");
  }
  if (!request.questions.empty() && request.segments != 1) {
    config_error("--question goes with one segment, not with --segments {}", request.segments);
  }
  if (request.kivi) {
    config_error("--kv kivi: the full cache that policies are compared with is not quantised");
  }
}

TaskEstimate estimate_hitrate(const HitRateRequest& request, TaskContext& context) {
  check_hitrate(request);
  const TokenSource source = context.tokens(request.tokens, request.model);
  const std::vector<ConfiguredPolicy> policies = make_policies(request.policies);
  const std::int64_t token_bytes =
      read_model_config(request.model).kv_bytes_per_token(request.kv_dtype);
  TaskEstimate estimate;
  for (const HitSegment& segment : cut_segments(request, source)) {
    const std::int64_t length = std::ssize(segment.prompt) + request.steps;
    std::int64_t passes = 1;
    for (const ConfiguredPolicy& configured : policies) {
      const PolicyTraits& traits = configured.policy->traits();
      const bool own = !TwinPolicy::can_share(traits) && traits.capacity < kUnlimited;
      passes += own && (request.nll || traits.timing == EvictTiming::chunked) ? 1 : 0;
      estimate.tokens += request.steps;
    }
    estimate.tokens += passes * length;
    estimate.kv_bytes = std::max(estimate.kv_bytes, 2 * length * token_bytes);
  }
  return estimate;
}

std::vector<RunRecord> run_hitrate(const HitRateRequest& request, TaskContext& context) {
  check_hitrate(request);
  return HitRateRun(request, context).run();
}

}  // namespace kvbench
