// Sequence: rotary tables, positions and slots of a step; appending, and the arguments of attention
// that follow from them.
#include "model/sequence.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "core/error.hpp"

namespace kvbench {

Sequence::Sequence(const ModelConfig& config, Backend& backend, KvCache& cache)
    : config_(config), backend_(backend), cache_(cache) {
  // Layers with the same rotary settings share their tables.
  std::vector<const RopeConfig*> made;
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    const RopeConfig* rope = config_.rope_of(layer);
    const auto at = std::ranges::find(made, rope) - made.begin();
    rotation_of_layer_.push_back(rope == nullptr ? -1 : at);
    if (rope == nullptr || at < std::ssize(made)) continue;
    made.push_back(rope);
    rotations_.emplace_back(backend_, *rope);
  }
  set_text_length(config_.max_positions);
}

void Sequence::set_text_length(std::int64_t n_tokens) {
  for (Rotation& rotation : rotations_) rotation.rotary.set_length(n_tokens);
}

const Sequence::Rotation* Sequence::rotation(std::int64_t layer) const {
  const std::int64_t at = rotation_of_layer_[static_cast<std::size_t>(layer)];
  return at < 0 ? nullptr : &rotations_[static_cast<std::size_t>(at)];
}

const Rotary* Sequence::rotary(std::int64_t layer) const {
  const Rotation* found = rotation(layer);
  return found == nullptr ? nullptr : &found->rotary;
}

void Sequence::place(const ForwardStep& step) {
  step_ = step;
  positions_.resize(step.ids.size());
  std::iota(positions_.begin(), positions_.end(), static_cast<std::int32_t>(step.first_position));
  if (step.positions == PositionMode::cache_index) return place_by_slot();
  for (Rotation& r : rotations_) r.rotary.fill(positions_, r.tokens);
}

void Sequence::place_by_slot() {
  if (config_.positions == PositionKind::table) {
    config_error(
        "positions=cache_index: the learned positions of a {} model are part of what is cached and "
        "cannot be renumbered; use positions=original",
        config_.model_type);
  }
  // Under cache_index all heads hold equally many entries, so slots are the same for all.
  const std::int64_t first_slot = cache_.length(0, 0);
  KVB_CHECK(first_slot == cache_.longest(), "cache_index positions need heads of equal length");
  token_slots_.resize(positions_.size());
  std::iota(token_slots_.begin(), token_slots_.end(), static_cast<std::int32_t>(first_slot));
  sink_positions_ = token_slots_;
  for (std::int32_t& slot : sink_positions_) {
    slot = static_cast<std::int32_t>(std::min<std::int64_t>(slot, step_.sink_slot_limit));
  }
  for (Rotation& r : rotations_) {
    r.rotary.fill(token_slots_, r.tokens);
    r.rotary.fill_slots(first_slot + std::ssize(token_slots_), r.slots);
    if (step_.pattern.sinks > 0) r.rotary.fill(sink_positions_, r.sinks);
  }
}

void Sequence::append(std::int64_t layer, const float* k, const float* v, std::int64_t stride) {
  const Rotation* r = rotation(layer);
  const bool rotate = r != nullptr && step_.positions == PositionMode::original;
  const KvCache::AppendTarget target = cache_.append(layer, positions_);
  backend_.kv_append({.k = k,
                      .v = v,
                      .stride = stride,
                      .n_tokens = std::ssize(positions_),
                      .head_dim = config_.head_dim,
                      .k_rows = target.keys,
                      .v_rows = target.values,
                      .kv_dtype = cache_.shape().dtype,
                      .rope = rotate ? r->tokens.view() : RopeRows{},
                      .rope_shape = r != nullptr ? r->rotary.shape() : RopeShape{}});
}

void Sequence::describe(std::int64_t layer, AttentionArgs& args) const {
  const bool by_slot = step_.positions == PositionMode::cache_index;
  const bool own_sink_distance = by_slot && step_.pattern.sinks > 0;
  args.sinks = step_.pattern.sinks;
  args.recent = step_.pattern.recent;
  args.q_sink_positions = own_sink_distance ? sink_positions_.data() : nullptr;
  args.distance_by_slot = by_slot;
  if (const Rotation* r = rotation(layer)) {
    args.rope_shape = r->rotary.shape();
    args.q_rope = r->tokens.view();
    if (own_sink_distance) args.q_rope_sink = r->sinks.view();
    if (by_slot) args.slot_rope = r->slots.view();
  }
}

}  // namespace kvbench
