// Transformer: embed, then per layer attention and MLP on a f32 residual stream, then final norm.
#include "model/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "core/error.hpp"

namespace kvbench {

Transformer::Transformer(const Model& model, Backend& backend, std::int64_t max_tokens,
                         bool softmax_off_by_one)
    : model_(model),
      config_(model.config()),
      backend_(backend),
      max_tokens_(max_tokens),
      softmax_off_by_one_(softmax_off_by_one),
      qkv_width_((config_.n_heads + 2 * config_.n_kv_heads) * config_.head_dim),
      stream_(model, backend, max_tokens),
      mlp_(model, backend, max_tokens) {
  const auto rows = static_cast<std::size_t>(max_tokens);
  const std::size_t compute = dtype_size(model.compute());
  const auto width = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  qkv_ = backend.allocate(rows * width(qkv_width_) * sizeof(float));
  attended_ = backend.allocate(rows * width(config_.n_heads * config_.head_dim) * compute);
  log_sum_exp_ = backend.allocate(rows * width(config_.n_heads) * sizeof(float));
  logits_ = backend.allocate(width(config_.vocab_size) * sizeof(float));
  if (config_.n_experts > 0) {
    experts_ = std::make_unique<Experts>(model, backend, max_tokens, mlp_, stream_);
  }
  for (const auto& block : model.weights().vocabulary) vocabulary_.push_back(block.get());
  make_rotations();
  set_text_length(config_.max_positions);
}

// Layers with the same rotary settings share their tables.
void Transformer::make_rotations() {
  std::vector<const RopeConfig*> made;
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    const RopeConfig* rope = config_.rope_of(layer);
    const auto at = std::ranges::find(made, rope) - made.begin();
    rotation_of_layer_.push_back(rope == nullptr ? -1 : at);
    if (rope == nullptr || at < std::ssize(made)) continue;
    made.push_back(rope);
    rotations_.emplace_back(backend_, *rope);
  }
}

void Transformer::set_text_length(std::int64_t n_tokens) {
  for (Rotation& rotation : rotations_) rotation.rotary.set_length(n_tokens);
}

const Transformer::Rotation* Transformer::rotation(std::int64_t layer) const {
  const std::int64_t at = rotation_of_layer_[static_cast<std::size_t>(layer)];
  return at < 0 ? nullptr : &rotations_[static_cast<std::size_t>(at)];
}

const Rotary* Transformer::rotary(std::int64_t layer) const {
  const Rotation* found = rotation(layer);
  return found == nullptr ? nullptr : &found->rotary;
}

void Transformer::check_ids(std::span<const std::int32_t> ids) const {
  for (const std::int32_t id : ids) {
    if (id < -model_.sinks().count() || id >= config_.vocab_size) {
      data_error("token id {} outside 0..{} (vocabulary of {})", id, config_.vocab_size - 1,
                 model_.directory().string());
    }
  }
}

void Transformer::forward(const ForwardStep& step, KvCache& cache, LayerHook* hook) {
  const auto n_tokens = static_cast<std::int64_t>(step.ids.size());
  KVB_CHECK(n_tokens > 0 && n_tokens <= max_tokens_, "step of {} tokens", n_tokens);
  check_ids(step.ids);
  prepare_positions(step, cache);
  stream_.embed(step.ids, positions_);
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    attention_block(step, layer, cache, hook);
    mlp_block(layer, n_tokens);
  }
  stream_.read(model_.weights().final_norm, n_tokens);
}

void Transformer::prepare_positions(const ForwardStep& step, const KvCache& cache) {
  const std::size_t n_tokens = step.ids.size();
  positions_.resize(n_tokens);
  std::iota(positions_.begin(), positions_.end(), static_cast<std::int32_t>(step.first_position));
  if (step.positions == PositionMode::original) {
    for (Rotation& r : rotations_) r.rotary.fill(positions_, r.tokens);
    return;
  }
  if (config_.positions == PositionKind::table) {
    config_error(
        "positions=cache_index: the learned positions of a {} model are part of what is cached and "
        "cannot be renumbered; use positions=original",
        config_.model_type);
  }
  // Under cache_index all heads hold equally many entries, so slots are the same for all.
  const std::int64_t first_slot = cache.length(0, 0);
  KVB_CHECK(first_slot == cache.longest(), "cache_index positions need heads of equal length");
  token_slots_.resize(n_tokens);
  std::iota(token_slots_.begin(), token_slots_.end(), static_cast<std::int32_t>(first_slot));
  sink_positions_ = token_slots_;
  for (std::int32_t& slot : sink_positions_) {
    slot = static_cast<std::int32_t>(std::min<std::int64_t>(slot, step.sink_slot_limit));
  }
  for (Rotation& r : rotations_) {
    r.rotary.fill(token_slots_, r.tokens);
    r.rotary.fill_slots(first_slot + static_cast<std::int64_t>(n_tokens), r.slots);
    if (step.pattern.sinks > 0) r.rotary.fill(sink_positions_, r.sinks);
  }
}

void Transformer::attention_block(const ForwardStep& step, std::int64_t layer, KvCache& cache,
                                  LayerHook* hook) {
  const LayerWeights& w = model_.weights().layers[static_cast<std::size_t>(layer)];
  const auto n_tokens = static_cast<std::int64_t>(step.ids.size());

  stream_.read(w.input_norm, n_tokens);
  backend_.linear(*w.qkv, {.x = stream_.normed(),
                           .y = qkv_.as<float>(),
                           .n_rows = n_tokens,
                           .accumulate = false,
                           .clip = static_cast<float>(config_.qkv_clip)});
  norm_queries_and_keys(w, n_tokens);
  append_to_cache(step, layer, cache);
  const AttentionArgs attention = attention_args(step, layer, cache);
  backend_.attention(attention);
  if (hook != nullptr) hook->after_attention({layer, attention}, cache);
  // A parallel MLP reads the stream as it is before the attention's output joins it.
  if (config_.parallel_block && !config_.shared_input_norm) stream_.read(w.mlp_norm, n_tokens);
  stream_.add_product(*w.o, attended_.as<void>(), w.attention_output_norm, n_tokens);
}

void Transformer::append_to_cache(const ForwardStep& step, std::int64_t layer, KvCache& cache) {
  const Rotation* r = rotation(layer);
  const bool rotate = r != nullptr && step.positions == PositionMode::original;
  const float* k = qkv_.as<float>() + config_.n_heads * config_.head_dim;
  const KvCache::AppendTarget target = cache.append(layer, positions_);
  backend_.kv_append({.k = k,
                      .v = k + config_.n_kv_heads * config_.head_dim,
                      .stride = qkv_width_,
                      .n_tokens = static_cast<std::int64_t>(step.ids.size()),
                      .head_dim = config_.head_dim,
                      .k_rows = target.keys,
                      .v_rows = target.values,
                      .kv_dtype = cache.shape().dtype,
                      .rope = rotate ? r->tokens.view() : RopeRows{},
                      .rope_shape = r != nullptr ? r->rotary.shape() : RopeShape{}});
}

AttentionArgs Transformer::attention_args(const ForwardStep& step, std::int64_t layer,
                                          KvCache& cache) {
  const bool by_slot = step.positions == PositionMode::cache_index;
  const bool own_sink_distance = by_slot && step.pattern.sinks > 0;
  AttentionArgs args{
      .q = qkv_.as<float>(),
      .q_stride = qkv_width_,
      .out = attended_.as<void>(),
      .out_dtype = model_.compute(),
      .n_tokens = static_cast<std::int64_t>(step.ids.size()),
      .n_heads = config_.n_heads,
      .head_dim = config_.head_dim,
      .scale = static_cast<float>(config_.attention_scale),
      .kv = cache.view(layer),
      .kv_dtype = cache.shape().dtype,
      .q_positions = positions_.data(),
      .sinks = step.pattern.sinks,
      .recent = step.pattern.recent,
      .window = config_.window_of(layer).value_or(kUnlimited),
      .q_sink_positions = own_sink_distance ? sink_positions_.data() : nullptr,
      .log_sum_exp = step.want_log_sum_exp ? log_sum_exp_.as<float>() : nullptr,
      .distance_by_slot = by_slot,
      .logit_cap = static_cast<float>(config_.attention_logit_cap),
      .alibi_slopes = config_.alibi_slopes.empty() ? nullptr : config_.alibi_slopes.data(),
      .off_by_one = softmax_off_by_one_};
  if (const Rotation* r = rotation(layer)) {
    args.rope_shape = r->rotary.shape();
    args.q_rope = r->tokens.view();
    if (own_sink_distance) args.q_rope_sink = r->sinks.view();
    if (by_slot) args.slot_rope = r->slots.view();
  }
  return args;
}

void Transformer::mlp_block(std::int64_t layer, std::int64_t n_tokens) {
  const LayerWeights& w = model_.weights().layers[static_cast<std::size_t>(layer)];
  if (!config_.parallel_block) stream_.read(w.mlp_norm, n_tokens);
  if (experts_ != nullptr) {
    experts_->add_outputs(w, n_tokens);
    return;
  }
  const void* inner = mlp_.inner(w.mlp, stream_.normed(), n_tokens);
  stream_.add_product(*w.mlp.down, inner, w.mlp_output_norm, n_tokens);
}

// In place, inside the rows of qkv_.
void Transformer::norm_queries_and_keys(const LayerWeights& w, std::int64_t n_tokens) {
  if (config_.qk_norm == QkNorm::none) return;
  norm_heads(w.q_norm, 0, config_.n_heads, n_tokens);
  norm_heads(w.k_norm, config_.n_heads * config_.head_dim, config_.n_kv_heads, n_tokens);
}

void Transformer::norm_heads(const Buffer& weight, std::int64_t first_column, std::int64_t n_heads,
                             std::int64_t n_tokens) {
  const bool whole = config_.qk_norm == QkNorm::whole;
  const std::int64_t width = whole ? n_heads * config_.head_dim : config_.head_dim;
  const std::int64_t n_parts = whole ? 1 : n_heads;
  const std::int64_t weight_step = config_.qk_norm == QkNorm::each_head ? width : 0;
  for (std::int64_t part = 0; part < n_parts; ++part) {
    float* rows = qkv_.as<float>() + first_column + part * width;
    backend_.norm({.x = rows,
                   .out = rows,
                   .weight = weight.as<float>() + part * weight_step,
                   .n_rows = n_tokens,
                   .width = width,
                   .x_stride = qkv_width_,
                   .out_stride = qkv_width_,
                   .epsilon = config_.norm_eps,
                   .kind = config_.norm,
                   .out_dtype = DType::f32});
  }
}

const void* Transformer::hidden_row(std::int64_t row) const {
  return static_cast<const std::byte*>(stream_.normed()) +
         static_cast<std::size_t>(row * config_.hidden_size) * dtype_size(model_.compute());
}

void Transformer::nll(std::int64_t first_row, std::span<const std::int32_t> targets,
                      std::span<double> nll) {
  check_ids(targets);
  backend_.nll({.hidden = hidden_row(first_row),
                .vocabulary = vocabulary_,
                .targets = targets.data(),
                .nll = nll.data(),
                .n_rows = static_cast<std::int64_t>(targets.size()),
                .logit_scale = config_.logit_scale,
                .logit_cap = config_.logit_cap});
}

void Transformer::logits(std::int64_t row, std::span<float> logits) {
  float* out = logits_.as<float>();
  for (const LinearWeight* block : vocabulary_) {
    backend_.linear(*block, {.x = hidden_row(row), .y = out, .n_rows = 1, .accumulate = false});
    out += block->out_features();
  }
  backend_.copy_out(logits.data(), logits_.as<void>(), logits.size() * sizeof(float));
  for (float& logit : logits) {
    logit *= static_cast<float>(config_.logit_scale);
    if (config_.logit_cap > 0.0) {
      const auto cap = static_cast<float>(config_.logit_cap);
      logit = cap * std::tanh(logit / cap);
    }
  }
}

}  // namespace kvbench
