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
                 const SessionOptions& options, std::shared_ptr<Transformer> transformer)
    : config_(model.config()),
      backend_(backend),
      policy_(policy),
      traits_(policy.traits()),
      options_(options),
      cache_(backend, cache_shape(model.config(), options)),
      sequence_(config_, backend, cache_),
      transformer_(std::move(transformer)),
      evidence_(model, backend, cache_, sequence_, traits_.needs),
      layer_capacity_(static_cast<std::size_t>(config_.n_layers), kUnlimited),
      learned_sinks_(model.sinks().count()),
      keep_(static_cast<std::size_t>(config_.n_kv_heads)),
      last_attention_(static_cast<std::size_t>(config_.n_layers)) {
  if (transformer_ == nullptr) {
    transformer_ =
        std::make_shared<Transformer>(model, backend, options.chunk, options.softmax_off_by_one);
  }
  KVB_CHECK(transformer_->max_tokens() >= options.chunk, "a transformer of {} tokens, chunks of {}",
            transformer_->max_tokens(), options.chunk);
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
  held_row_ = -1;
  recompute_dropped_ = 0;
  ties_at_cut_ = 0;
  share_capacity(text_tokens);
  tail_.clear();
  saved_logits_.clear();
  sequence_.set_text_length(std::max<std::int64_t>(text_tokens, 1));
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

// Learned sinks alone, where the sequence has yet to begin.
void Session::feed_sinks() {
  if (tokens_fed_ > 0 || learned_sinks_ == 0) return;
  led_ids_.clear();
  for (std::int32_t sink = 0; sink < learned_sinks_; ++sink) led_ids_.push_back(-1 - sink);
  run(led_ids_, led_ids_.size(), {}, {});
}

// The first `unnamed` ids are followed by no target of the caller's.
void Session::run(std::span<const std::int32_t> ids, std::size_t unnamed,
                  std::span<const std::int32_t> targets, std::span<double> nll) {
  KVB_CHECK(targets.size() + unnamed <= ids.size() && nll.size() == targets.size(),
            "{} ids, {} targets, {} results", ids.size(), targets.size(), nll.size());
  for (std::size_t done = 0; done < ids.size();) {
    const bool scored = done >= unnamed && done - unnamed < targets.size();
    const std::size_t n = advance(ids.subspan(done), scored);
    const std::size_t first = std::max(done, unnamed);
    const std::size_t end = std::min(done + n, unnamed + targets.size());
    if (first < end) {
      transformer_->nll(held_row_ + 1 - static_cast<std::int64_t>(done + n - first),
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
  const std::int64_t dense = traits_.recompute_length.value_or(kUnlimited) - tokens_fed_;
  if (dense <= 0) {
    recompute_step(ids.front(), scored || ids.size() == 1);
    return 1;
  }
  n = std::min(n, static_cast<std::size_t>(dense));
  forward(next_step(ids.first(n), ids.size() - n));
  count_fed(n, static_cast<std::int64_t>(n) - 1);
  const auto fed = ids.first(n);
  if (traits_.recompute_length) tail_.insert(tail_.end(), fed.begin(), fed.end());
  return n;
}

// These tokens as a step, room for them made; `left` tokens of the same call come after it.
ForwardStep Session::next_step(std::span<const std::int32_t> ids, std::size_t left) {
  KVB_CHECK(!traits_.keep_share || capacity_ < kUnlimited,
            "a share of the prompt, but there was no prompt");
  if (!in_prompt_) ++decode_steps_;
  selecting_ = selects_now(left);
  const bool prompt_ends = left == 0 && !selects_after_prompt();
  quantising_ = options_.kivi && (!in_prompt_ || prompt_ends);
  if (traits_.sink_token && tokens_fed_ < traits_.kept->sinks) {
    replaced_ids_.assign(ids.begin(), ids.end());
    const auto sinks = static_cast<std::size_t>(traits_.kept->sinks - tokens_fed_);
    std::fill_n(replaced_ids_.begin(), std::min(sinks, ids.size()), *traits_.sink_token);
    ids = replaced_ids_;
  }
  ForwardStep step{.sequence = &sequence_,
                   .ids = ids,
                   .first_position = tokens_fed_,
                   .positions = traits_.positions,
                   .pattern = {},
                   .want_log_sum_exp = traits_.needs.mass || observer_ != nullptr,
                   .hook = this};
  if (traits_.kept) limit_to_kept(ids.size(), step);
  return step;
}

// What the step's queries see, where the kept set follows from positions.
void Session::limit_to_kept(std::size_t n_tokens, ForwardStep& step) {
  // Room made before the forward: the step's own token is one of the `capacity` that it sees.
  const bool before = traits_.evict == EvictWhen::before && capacity_ < kUnlimited;
  const std::int64_t own = before ? 1 : 0;
  for (std::int64_t layer = 0; before && layer < config_.n_layers; ++layer) {
    trim_layer(layer, capacity_ - own);
  }
  // While nothing has been evicted every query sees everything, and the arithmetic is full's own.
  if (tokens_fed_ + static_cast<std::int64_t>(n_tokens) <= capacity_ - own) return;
  step.pattern = *traits_.kept;
  step.pattern.recent -= own;
  step.sink_slot_limit = capacity_ - own;
}

// n tokens went through; the last one's hidden state is in that row of the transformer.
void Session::count_fed(std::size_t n, std::int64_t last_row) {
  tokens_fed_ += static_cast<std::int64_t>(n);
  if (!in_prompt_) decode_tokens_ += static_cast<std::int64_t>(n);
  held_row_ = last_row;
  held_pass_ = transformer_->passes();
  saved_logits_.clear();
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
  if (!asked) return count_fed(1, -1);
  const std::span<const std::int32_t> window = std::span(tail_).last(length);
  const auto chunk = static_cast<std::size_t>(options_.chunk);
  std::int64_t last_row = 0;
  for (std::size_t first = 0; first < window.size(); first += chunk) {
    const std::size_t n = std::min(chunk, window.size() - first);
    forward({.sequence = &sequence_,
             .ids = window.subspan(first, n),
             .first_position = static_cast<std::int64_t>(first),
             .pattern = {}});
    last_row = static_cast<std::int64_t>(n) - 1;
  }
  count_fed(1, last_row);
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

void Session::last_logits(std::span<float> logits) {
  KVB_CHECK(held_row_ >= 0, "no token was fed");
  if (!saved_logits_.empty()) {
    std::copy(saved_logits_.begin(), saved_logits_.end(), logits.begin());
    return;
  }
  KVB_CHECK(held_pass_ == transformer_->passes(), "the transformer has gone on to other tokens");
  transformer_->logits(held_row_, logits);
}

}  // namespace kvbench
