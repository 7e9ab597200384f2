// Transformer: embed, then per layer attention and MLP on a f32 residual stream, then final norm.
#include "model/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.hpp"

namespace kvbench {

Transformer::Transformer(const Model& model, Backend& backend, std::int64_t max_tokens)
    : model_(model),
      config_(model.config()),
      backend_(backend),
      max_tokens_(max_tokens),
      qkv_width_((config_.n_heads + 2 * config_.n_kv_heads) * config_.head_dim),
      rotary_(backend, config_.rope) {
  const auto rows = static_cast<std::size_t>(max_tokens);
  const std::size_t compute = dtype_size(model.compute());
  const auto width = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  residual_ = backend.allocate(rows * width(config_.hidden_size) * sizeof(float));
  normed_ = backend.allocate(rows * width(config_.hidden_size) * compute);
  qkv_ = backend.allocate(rows * width(qkv_width_) * sizeof(float));
  attended_ = backend.allocate(rows * width(config_.n_heads * config_.head_dim) * compute);
  gate_up_ = backend.allocate(rows * width(2 * config_.ffn_size) * sizeof(float));
  activated_ = backend.allocate(rows * width(config_.ffn_size) * compute);
  log_sum_exp_ = backend.allocate(rows * width(config_.n_heads) * sizeof(float));
  logits_ = backend.allocate(width(config_.vocab_size) * sizeof(float));
  for (const auto& block : model.weights().vocabulary) vocabulary_.push_back(block.get());
  rotary_.set_length(config_.max_positions);
}

void Transformer::check_ids(std::span<const std::int32_t> ids) const {
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= config_.vocab_size) {
      data_error("token id {} outside 0..{} (vocabulary of {})", id, config_.vocab_size - 1,
                 model_.directory().string());
    }
  }
}

void Transformer::forward(const ForwardStep& step, KvCache& cache, LayerHook* hook) {
  const auto n_tokens = static_cast<std::int64_t>(step.ids.size());
  KVB_CHECK(n_tokens > 0 && n_tokens <= max_tokens_, "step of {} tokens", n_tokens);
  check_ids(step.ids);
  prepare_rotation(step, cache);
  backend_.embed(*model_.weights().embedding, step.ids, residual_.as<float>());
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    attention_block(step, layer, cache, hook);
    mlp_block(layer, n_tokens);
  }
  norm_rows(residual_.as<float>(), model_.weights().final_norm, n_tokens, normed_.as<void>());
}

void Transformer::prepare_rotation(const ForwardStep& step, const KvCache& cache) {
  const std::size_t n_tokens = step.ids.size();
  positions_.resize(n_tokens);
  std::iota(positions_.begin(), positions_.end(), static_cast<std::int32_t>(step.first_position));
  if (step.positions == PositionMode::original) {
    rotary_.fill(positions_, token_rows_);
    return;
  }
  // Under cache_index all heads hold equally many entries, so slots are the same for all.
  const std::int64_t first_slot = cache.length(0, 0);
  KVB_CHECK(first_slot == cache.longest(), "cache_index positions need heads of equal length");
  rope_positions_.resize(n_tokens);
  std::iota(rope_positions_.begin(), rope_positions_.end(), static_cast<std::int32_t>(first_slot));
  rotary_.fill(rope_positions_, token_rows_);
  rotary_.fill_slots(first_slot + static_cast<std::int64_t>(n_tokens), slot_rows_);
  if (step.pattern.sinks > 0) {
    sink_positions_ = rope_positions_;
    for (std::int32_t& slot : sink_positions_) {
      slot = static_cast<std::int32_t>(std::min<std::int64_t>(slot, step.sink_slot_limit));
    }
    rotary_.fill(sink_positions_, sink_rows_);
  }
}

void Transformer::attention_block(const ForwardStep& step, std::int64_t layer, KvCache& cache,
                                  LayerHook* hook) {
  const LayerWeights& w = model_.weights().layers[static_cast<std::size_t>(layer)];
  const auto n_tokens = static_cast<std::int64_t>(step.ids.size());
  const std::int64_t q_width = config_.n_heads * config_.head_dim;
  const std::int64_t kv_width = config_.n_kv_heads * config_.head_dim;
  const bool by_slot = step.positions == PositionMode::cache_index;
  float* qkv = qkv_.as<float>();

  norm_rows(residual_.as<float>(), w.input_norm, n_tokens, normed_.as<void>());
  backend_.linear(*w.qkv,
                  {.x = normed_.as<void>(), .y = qkv, .n_rows = n_tokens, .accumulate = false});
  if (config_.qk_norm) {
    norm_heads(w.q_norm, 0, config_.n_heads, n_tokens);
    norm_heads(w.k_norm, q_width, config_.n_kv_heads, n_tokens);
  }

  const KvCache::AppendTarget target = cache.append(layer, positions_);
  backend_.kv_append({.k = qkv + q_width,
                      .v = qkv + q_width + kv_width,
                      .stride = qkv_width_,
                      .n_tokens = n_tokens,
                      .head_dim = config_.head_dim,
                      .k_rows = target.keys,
                      .v_rows = target.values,
                      .kv_dtype = cache.shape().dtype,
                      .rope = by_slot ? RopeRows{} : token_rows_.view(),
                      .rope_shape = rotary_.shape()});

  const bool own_sink_rotation = by_slot && step.pattern.sinks > 0;
  const AttentionArgs attention{
      .q = qkv,
      .q_stride = qkv_width_,
      .out = attended_.as<void>(),
      .out_dtype = model_.compute(),
      .n_tokens = n_tokens,
      .n_heads = config_.n_heads,
      .head_dim = config_.head_dim,
      .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim))),
      .kv = cache.view(layer),
      .kv_dtype = cache.shape().dtype,
      .q_positions = positions_.data(),
      .sinks = step.pattern.sinks,
      .recent = step.pattern.recent,
      .window = config_.window_of(layer).value_or(kUnlimited),
      .rope_shape = rotary_.shape(),
      .q_rope = token_rows_.view(),
      .q_rope_sink = own_sink_rotation ? sink_rows_.view() : RopeRows{},
      .q_sink_positions = own_sink_rotation ? sink_positions_.data() : nullptr,
      .slot_rope = by_slot ? slot_rows_.view() : RopeRows{},
      .log_sum_exp = step.want_log_sum_exp ? log_sum_exp_.as<float>() : nullptr};
  backend_.attention(attention);
  if (hook != nullptr) hook->after_attention({layer, attention}, cache);
  backend_.linear(*w.o, {.x = attended_.as<void>(),
                         .y = residual_.as<float>(),
                         .n_rows = n_tokens,
                         .accumulate = true});
}

void Transformer::mlp_block(std::int64_t layer, std::int64_t n_tokens) {
  const LayerWeights& w = model_.weights().layers[static_cast<std::size_t>(layer)];
  norm_rows(residual_.as<float>(), w.post_norm, n_tokens, normed_.as<void>());
  backend_.linear(*w.gate_up, {.x = normed_.as<void>(),
                               .y = gate_up_.as<float>(),
                               .n_rows = n_tokens,
                               .accumulate = false});
  backend_.gated_activation({.gate_up = gate_up_.as<float>(),
                             .out = activated_.as<void>(),
                             .n_rows = n_tokens,
                             .width = config_.ffn_size,
                             .activation = config_.activation,
                             .out_dtype = model_.compute()});
  backend_.linear(*w.down, {.x = activated_.as<void>(),
                            .y = residual_.as<float>(),
                            .n_rows = n_tokens,
                            .accumulate = true});
}

void Transformer::norm_rows(const float* x, const Buffer& weight, std::int64_t n_tokens,
                            void* out) {
  backend_.norm({.x = x,
                 .out = out,
                 .weight = weight.as<float>(),
                 .n_rows = n_tokens,
                 .width = config_.hidden_size,
                 .x_stride = config_.hidden_size,
                 .out_stride = config_.hidden_size,
                 .epsilon = config_.norm_eps,
                 .kind = config_.norm,
                 .out_dtype = model_.compute()});
}

// Norms each head of q or k in place, inside the rows of qkv_.
void Transformer::norm_heads(const Buffer& weight, std::int64_t first_column, std::int64_t n_heads,
                             std::int64_t n_tokens) {
  for (std::int64_t head = 0; head < n_heads; ++head) {
    float* rows = qkv_.as<float>() + first_column + head * config_.head_dim;
    backend_.norm({.x = rows,
                   .out = rows,
                   .weight = weight.as<float>(),
                   .n_rows = n_tokens,
                   .width = config_.head_dim,
                   .x_stride = qkv_width_,
                   .out_stride = qkv_width_,
                   .epsilon = config_.norm_eps,
                   .kind = config_.norm,
                   .out_dtype = DType::f32});
  }
}

const void* Transformer::hidden_row(std::int64_t row) const {
  return normed_.as<std::byte>() +
         static_cast<std::size_t>(row * config_.hidden_size) * dtype_size(model_.compute());
}

void Transformer::nll(std::int64_t first_row, std::span<const std::int32_t> targets,
                      std::span<double> nll) {
  check_ids(targets);
  backend_.nll({.hidden = hidden_row(first_row),
                .vocabulary = vocabulary_,
                .targets = targets.data(),
                .nll = nll.data(),
                .n_rows = static_cast<std::int64_t>(targets.size())});
}

void Transformer::logits(std::int64_t row, std::span<float> logits) {
  float* out = logits_.as<float>();
  for (const LinearWeight* block : vocabulary_) {
    backend_.linear(*block, {.x = hidden_row(row), .y = out, .n_rows = 1, .accumulate = false});
    out += block->out_features();
  }
  backend_.copy_out(logits.data(), logits_.as<void>(), logits.size() * sizeof(float));
}

}  // namespace kvbench
