// Session: the loop around the forward pass. Policies whose kept set follows from positions alone
// run many tokens at once: each query's attention pattern is what eviction token by token would
// have left it, so the results are the same (a test holds the two paths against each other).
#include "engine/session.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "policy/scorer.hpp"

namespace kvbench {
namespace {

KvCacheShape cache_shape(const ModelConfig& config, const SessionOptions& options) {
  return {config.n_layers, config.n_kv_heads, config.head_dim, options.kv_dtype, options.kivi};
}

}  // namespace

Session::Session(const Model& model, Backend& backend, EvictionPolicy& policy,
                 const SessionOptions& options)
    : config_(model.config()),
      backend_(backend),
      policy_(policy),
      traits_(policy.traits()),
      options_(options),
      cache_(backend, cache_shape(model.config(), options)),
      transformer_(model, backend, options.chunk, options.softmax_off_by_one),
      evidence_(model, backend, cache_, transformer_, traits_.needs),
      layer_capacity_(static_cast<std::size_t>(config_.n_layers), kUnlimited),
      learned_sinks_(model.sinks().count()),
      keep_(static_cast<std::size_t>(config_.n_kv_heads)),
      last_attention_(static_cast<std::size_t>(config_.n_layers)) {
  KVB_CHECK(!options.learned_sinks || learned_sinks_ > 0, "learned sinks that were not loaded");
  if (learned_sinks_ > 0 && traits_.sink_token) {
    config_error(
        "sink_tokens=newline would replace the model's learned sinks: give one or the other");
  }
  if (options.softmax_off_by_one && !backend.supports(Feature::softmax_off_by_one)) {
    device_error("backend {} cannot compute {}; use the cpu backend", backend.name(),
                 feature_name(Feature::softmax_off_by_one));
  }
  if (!selects_after_prompt()) return;
  KVB_CHECK(traits_.timing == EvictTiming::prefill && traits_.positions == PositionMode::original,
            "selection after the prompt under another timing, or with renumbered positions");
}

bool Session::selects_after_prompt() const {
  return traits_.scope == EvictScope::model ||
         traits_.needs.replay.tokens != ReplayNeeds::Tokens::none;
}

// Selecting policies decide after each token of a stream, and KIVI quantises then; all others can
// take many at once.
std::int64_t Session::tokens_per_step() const {
  const bool selects = !traits_.kept && traits_.timing == EvictTiming::decode;
  const bool one_by_one =
      !traits_.recompute_length && !in_prompt_ && (selects || options_.kivi.has_value());
  return one_by_one ? 1 : options_.chunk;
}

void Session::begin(std::int64_t text_tokens) {
  cache_.clear();
  cache_.reset_statistics();
  policy_.reset(options_.seed);
  evidence_.reset();
  capacity_ = traits_.capacity;
  text_tokens += learned_sinks_;
  text_tokens_ = text_tokens;
  tokens_fed_ = 0;
  decode_steps_ = 0;
  decode_tokens_ = 0;
  held_tokens_ = 0;
  recompute_dropped_ = 0;
  ties_at_cut_ = 0;
  share_capacity(text_tokens);
  tail_.clear();
  saved_logits_.clear();
  transformer_.set_text_length(std::max<std::int64_t>(text_tokens, 1));
  if (!traits_.kept && traits_.timing != EvictTiming::decode) return;
  // A streaming cache gets a quarter more rows than it can hold, so that live rows slide back to
  // the front once in many steps and not at each.
  const std::int64_t step = std::min(tokens_per_step(), std::max<std::int64_t>(text_tokens, 1));
  const std::int64_t held = traits_.capacity + std::max(step, traits_.interval);
  const std::int64_t most = std::min(text_tokens, held);
  cache_.reserve(most < text_tokens ? most + traits_.capacity / 4 : most);
}

void Session::prefill(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
                      std::span<double> nll, std::span<const std::int32_t> future) {
  in_prompt_ = true;
  const std::size_t given = ids.size();
  ids = after_sinks(ids);
  const auto prompt = static_cast<std::int64_t>(ids.size());
  set_prompt_capacity(prompt);
  const bool selects = !traits_.kept && !traits_.recompute_length;
  const bool whole = selects && traits_.timing != EvictTiming::chunked;
  if (options_.kivi) {
    if (whole || traits_.capacity == kUnlimited) cache_.reserve_waiting(prompt);
  } else if (whole) {
    cache_.reserve(prompt);
  }
  run(ids, ids.size() - given, targets, nll);
  in_prompt_ = false;
  if (selects_after_prompt() && cache_.longest() > capacity_) {
    replay(ids, future);
    select_after_prompt();
  }
  if (options_.kivi && selects_after_prompt()) {
    for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) cache_.quantise(layer);
  }
  if (selects) cache_.shrink(std::max<std::int64_t>(0, text_tokens_ - tokens_fed_));
}

// What a prompt of this length leaves to keep.
void Session::set_prompt_capacity(std::int64_t prompt_tokens) {
  if (traits_.keep_share) {
    const std::int64_t counted = std::max<std::int64_t>(0, prompt_tokens - traits_.keep_beside);
    capacity_ =
        traits_.keep_beside + std::max<std::int64_t>(1, share_of(*traits_.keep_share, counted));
  }
  share_capacity(traits_.timing == EvictTiming::prefill ? prompt_tokens : text_tokens_);
}

void Session::feed(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
                   std::span<double> nll) {
  KVB_CHECK(!traits_.keep_share || capacity_ < kUnlimited,
            "a share of the prompt, but there was no prompt");
  const auto all = after_sinks(ids);
  run(all, all.size() - ids.size(), targets, nll);
}

// The ids, after the learned sinks where they begin the sequence.
std::span<const std::int32_t> Session::after_sinks(std::span<const std::int32_t> ids) {
  if (tokens_fed_ > 0 || ids.empty() || learned_sinks_ == 0) return ids;
  led_ids_.clear();
  for (std::int32_t sink = 0; sink < learned_sinks_; ++sink) led_ids_.push_back(-1 - sink);
  led_ids_.insert(led_ids_.end(), ids.begin(), ids.end());
  return led_ids_;
}

// The first `unnamed` ids are followed by no target of the caller's.
void Session::run(std::span<const std::int32_t> ids, std::size_t unnamed,
                  std::span<const std::int32_t> targets, std::span<double> nll) {
  KVB_CHECK(targets.size() + unnamed <= ids.size() && nll.size() == targets.size(),
            "{} ids, {} targets, {} results", ids.size(), targets.size(), nll.size());
  std::vector<std::int32_t> replaced;
  if (traits_.sink_token && tokens_fed_ < traits_.kept->sinks) {
    replaced.assign(ids.begin(), ids.end());
    const auto left = static_cast<std::size_t>(traits_.kept->sinks - tokens_fed_);
    std::fill_n(replaced.begin(), std::min(left, replaced.size()), *traits_.sink_token);
    ids = replaced;
  }
  for (std::size_t done = 0; done < ids.size();) {
    const bool scored = done >= unnamed && done - unnamed < targets.size();
    const std::size_t n = advance(ids.subspan(done), scored);
    tokens_fed_ += static_cast<std::int64_t>(n);
    if (!in_prompt_) decode_tokens_ += static_cast<std::int64_t>(n);
    const std::size_t first = std::max(done, unnamed);
    const std::size_t end = std::min(done + n, unnamed + targets.size());
    if (first < end) {
      transformer_.nll(held_tokens_ - static_cast<std::int64_t>(done + n - first),
                       targets.subspan(first - unnamed, end - first),
                       nll.subspan(first - unnamed, end - first));
    }
    done += n;
  }
}

// Budgets of the layers; `longest` is the most entries that a head can hold when it is cut.
void Session::share_capacity(std::int64_t longest) {
  if (capacity_ < kUnlimited) policy_.share_capacity(capacity_, longest, layer_capacity_);
}

// One forward over the first of `ids`, which is scored or not; returns over how many.
std::size_t Session::advance(std::span<const std::int32_t> ids, bool scored) {
  std::size_t n = std::min(static_cast<std::size_t>(tokens_per_step()), ids.size());
  if (!traits_.recompute_length) {
    if (!in_prompt_) ++decode_steps_;
    selecting_ = selects_now(ids.size() - n);
    const bool prompt_ends = n == ids.size() && !selects_after_prompt();
    quantising_ = options_.kivi && (!in_prompt_ || prompt_ends);
    step(ids.first(n));
    return n;
  }
  const std::int64_t dense = *traits_.recompute_length - tokens_fed_;
  if (dense <= 0) {
    recompute_step(ids.front(), scored || ids.size() == 1);
    return 1;
  }
  n = std::min(n, static_cast<std::size_t>(dense));
  step(ids.first(n));
  tail_.insert(tail_.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n));
  return n;
}

// Whether a step with `left` tokens of its call behind it ends in a selection.
bool Session::selects_now(std::size_t left) const {
  if (traits_.kept || traits_.recompute_length || capacity_ == kUnlimited) return false;
  if (selects_after_prompt()) return false;
  if (in_prompt_) return left == 0 || traits_.timing == EvictTiming::chunked;
  return traits_.timing == EvictTiming::decode && decode_steps_ % traits_.interval == 0;
}

void Session::step(std::span<const std::int32_t> ids) {
  ForwardStep forward;
  forward.ids = ids;
  forward.first_position = tokens_fed_;
  forward.positions = traits_.positions;
  forward.want_log_sum_exp = traits_.needs.mass || observer_ != nullptr;
  if (traits_.kept) {
    // Room made before the forward: the step's own token is one of the `capacity` that it sees.
    const bool before = traits_.evict == EvictWhen::before && capacity_ < kUnlimited;
    const std::int64_t own = before ? 1 : 0;
    for (std::int64_t layer = 0; before && layer < config_.n_layers; ++layer) {
      trim_layer(layer, capacity_ - own);
    }
    // While nothing has been evicted every query sees everything, and the arithmetic is full's own.
    if (tokens_fed_ + static_cast<std::int64_t>(ids.size()) > capacity_ - own) {
      forward.pattern = *traits_.kept;
      forward.pattern.recent -= own;
      forward.sink_slot_limit = capacity_ - own;
    }
  }
  transformer_.forward(forward, cache_, this);
  saved_logits_.clear();
  held_tokens_ = static_cast<std::int64_t>(ids.size());
}

// The window slides by one token, and all of it is computed again at positions 0 .. length-1.
// Nothing of a window outlives its step, so one of which nobody asks the logits need not be run.
void Session::recompute_step(std::int32_t id, bool asked) {
  const auto length = static_cast<std::size_t>(*traits_.recompute_length);
  // What has slid out is removed once per window, not once per token.
  if (tail_.size() == 2 * length) tail_.erase(tail_.begin(), tail_.end() - std::ssize(tail_) / 2);
  tail_.push_back(id);
  cache_.clear();
  recompute_dropped_ += config_.n_layers * config_.n_kv_heads;
  if (!asked) return;
  const std::span<const std::int32_t> window = std::span(tail_).last(length);
  const auto chunk = static_cast<std::size_t>(options_.chunk);
  for (std::size_t first = 0; first < window.size(); first += chunk) {
    const std::size_t n = std::min(chunk, window.size() - first);
    ForwardStep forward;
    forward.ids = window.subspan(first, n);
    forward.first_position = static_cast<std::int64_t>(first);
    transformer_.forward(forward, cache_, nullptr);
    held_tokens_ = static_cast<std::int64_t>(n);
  }
}

void Session::after_attention(const LayerState& state, KvCache& cache) {
  if (traits_.recompute_length) return;
  if (observer_ != nullptr && !replaying_) observer_->after_attention(state, cache);
  if (traits_.kept) {
    trim_layer(state.layer, capacity_);
  } else {
    look_and_select(state);
  }
  if (quantising_) cache_.quantise(state.layer);
}

void Session::look_and_select(const LayerState& state) {
  if (in_prompt_ || replaying_) {
    last_attention_[static_cast<std::size_t>(state.layer)] = state.attention;
  }
  if (replaying_) {
    evidence_.replay().collect(state);
    return;
  }
  // Nothing is selected after a prompt's end, unless the policy acts during decoding.
  if (in_prompt_ || traits_.timing == EvictTiming::decode) evidence_.collect(state);
  if (selecting_) select_layer(state, tokens_fed_ + state.attention.n_tokens);
}

// Evicts behind the sinks.
void Session::trim_layer(std::int64_t layer, std::int64_t capacity) {
  for (std::int64_t kv_head = 0; kv_head < config_.n_kv_heads; ++kv_head) {
    const std::int64_t excess = cache_.length(layer, kv_head) - capacity;
    if (excess > 0) cache_.evict_run(layer, kv_head, traits_.kept->sinks, excess);
  }
}

// Under EvictWhen::before the next step's token must find its place: one entry less is kept.
std::int64_t Session::budget(std::int64_t layer) const {
  return layer_capacity_[static_cast<std::size_t>(layer)] -
         (traits_.evict == EvictWhen::before ? 1 : 0);
}

void Session::select_layer(const LayerState& state, std::int64_t tokens_seen) {
  const std::int64_t most = budget(state.layer);
  std::int64_t entries = 0;
  for (std::int64_t kv_head = 0; kv_head < config_.n_kv_heads; ++kv_head) {
    entries += cache_.length(state.layer, kv_head);
  }
  if (entries <= most * config_.n_kv_heads) return;
  keep_.clear();
  if (most > 0) {
    evidence_.show(state, tokens_seen, most);
    policy_.select(evidence_, keep_);
    ties_at_cut_ += keep_.ties_at_cut;
  }
  keep_layer(state.layer, keep_);
}

void Session::keep_layer(std::int64_t layer, const KeepList& keep) {
  for (std::int64_t kv_head = 0; kv_head < config_.n_kv_heads; ++kv_head) {
    const auto& slots = keep[static_cast<std::size_t>(kv_head)];
    cache_.keep(layer, kv_head, slots);
    evidence_.keep(layer, kv_head, slots);
  }
}

std::vector<std::int32_t> Session::kept_positions(std::int64_t layer, std::int64_t kv_head) const {
  const auto stored = cache_.positions(layer, kv_head);
  std::vector<std::int32_t> kept(stored.begin(), stored.end());
  // A re-computed window stands at positions 0 .. length-1 of its own.
  const auto shift =
      traits_.recompute_length ? tokens_fed_ - static_cast<std::int64_t>(kept.size()) : 0;
  for (std::int32_t& position : kept) position += static_cast<std::int32_t>(shift);
  return kept;
}

bool Session::can_rewind() const {
  const bool grows =
      capacity_ == kUnlimited || (!traits_.kept && traits_.timing != EvictTiming::decode);
  return grows && !traits_.recompute_length && !options_.kivi;
}

void Session::rewind(std::int64_t tokens) {
  KVB_CHECK(can_rewind() && tokens >= 0 && tokens <= decode_tokens_,
            "{} tokens to take back, of {} after the prompt", tokens, decode_tokens_);
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    for (std::int64_t kv_head = 0; kv_head < config_.n_kv_heads; ++kv_head) {
      cache_.truncate(layer, kv_head, cache_.length(layer, kv_head) - tokens);
    }
  }
  tokens_fed_ -= tokens;
  decode_tokens_ -= tokens;
  if (tokens > 0) held_tokens_ = 0;
  saved_logits_.clear();
}

void Session::last_logits(std::span<float> logits) {
  KVB_CHECK(held_tokens_ > 0, "no token was fed");
  if (!saved_logits_.empty()) {
    std::copy(saved_logits_.begin(), saved_logits_.end(), logits.begin());
    return;
  }
  transformer_.logits(held_tokens_ - 1, logits);
}

}  // namespace kvbench
