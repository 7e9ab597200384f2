// Session, selection: whether a step ends in one, what each layer keeps then, and what it tells the
// policy's evidence on the way.
#include "core/error.hpp"
#include "engine/session.hpp"

namespace kvbench {

// Whether a step with `left` tokens of its call behind it ends in a selection.
bool Session::selects_now(std::size_t left) const {
  if (traits_.kept || traits_.recompute_length || capacity_ == kUnlimited) return false;
  if (selects_after_prompt()) return false;
  if (in_prompt_) return left == 0 || traits_.timing == EvictTiming::chunked;
  return traits_.timing == EvictTiming::decode && decode_steps_ % traits_.interval == 0;
}

// Selections that multiply matrices run one at a time, and observers see one sequence after
// another.
bool Session::runs_beside_others() const {
  return observer_ == nullptr && !traits_.needs.output_norms;
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

}  // namespace kvbench
