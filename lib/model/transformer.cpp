// Transformer: embed, then per layer attention and MLP on a f32 residual stream, then final norm.
#include "model/transformer.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

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
  if (config_.n_experts > 0) {
    experts_ = std::make_unique<Experts>(model, backend, max_tokens, mlp_, stream_);
  }
  for (const auto& block : model.weights().vocabulary) vocabulary_.push_back(block.get());
}

void Transformer::check_ids(std::span<const std::int32_t> ids) const {
  for (const std::int32_t id : ids) {
    if (id < -model_.sinks().count() || id >= config_.vocab_size) {
      data_error("token id {} outside 0..{} (vocabulary of {})", id, config_.vocab_size - 1,
                 model_.directory().string());
    }
  }
}

void Transformer::forward(std::span<const ForwardStep> steps) {
  ++passes_;
  gather(steps);
  const auto n_tokens = std::ssize(ids_);
  backend_.begin_step(n_tokens);
  stream_.embed(ids_, positions_);
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    attention_block(steps, layer);
    mlp_block(layer, n_tokens);
  }
  stream_.read(model_.weights().final_norm, n_tokens);
  backend_.end_step();
}

// The tokens of all steps, one after another.
void Transformer::gather(std::span<const ForwardStep> steps) {
  ids_.clear();
  positions_.clear();
  first_rows_.clear();
  for (const ForwardStep& step : steps) {
    KVB_CHECK(!step.ids.empty(), "a step without tokens");
    first_rows_.push_back(std::ssize(ids_));
    ids_.insert(ids_.end(), step.ids.begin(), step.ids.end());
  }
  KVB_CHECK(!ids_.empty() && std::ssize(ids_) <= max_tokens_, "a pass of {} tokens", ids_.size());
  check_ids(ids_);
  for (const ForwardStep& step : steps) {
    step.sequence->place(step);
    const auto placed = step.sequence->positions();
    positions_.insert(positions_.end(), placed.begin(), placed.end());
  }
}

void Transformer::attention_block(std::span<const ForwardStep> steps, std::int64_t layer) {
  const LayerWeights& w = model_.weights().layers[static_cast<std::size_t>(layer)];
  const auto n_tokens = std::ssize(ids_);

  stream_.read(w.input_norm, n_tokens);
  backend_.linear(*w.qkv, {.x = stream_.normed(),
                           .y = qkv_.as<float>(),
                           .n_rows = n_tokens,
                           .accumulate = false,
                           .clip = static_cast<float>(config_.qkv_clip)});
  norm_queries_and_keys(w, n_tokens);
  const auto attend_step = [&](std::int64_t i) {
    const auto index = static_cast<std::size_t>(i);
    attend(steps[index], first_rows_[index], layer);
  };
  const bool independent = std::ranges::all_of(steps, [](const ForwardStep& step) {
    return step.hook == nullptr || step.hook->runs_beside_others();
  });
  if (independent) {
    backend_.for_each(std::ssize(steps), std::cref(attend_step));
  } else {
    for (std::int64_t i = 0; i < std::ssize(steps); ++i) attend_step(i);
  }
  // A parallel MLP reads the stream as it is before the attention's output joins it.
  if (config_.parallel_block && !config_.shared_input_norm) stream_.read(w.mlp_norm, n_tokens);
  stream_.add_product(*w.o, attended_.as<void>(), w.attention_output_norm, n_tokens);
}

// One sequence's part of a layer's attention; its rows of q, k and v are there.
void Transformer::attend(const ForwardStep& step, std::int64_t first_row, std::int64_t layer) {
  const float* k = qkv_.as<float>() + first_row * qkv_width_ + config_.n_heads * config_.head_dim;
  step.sequence->append(layer, k, k + config_.n_kv_heads * config_.head_dim, qkv_width_);
  const AttentionArgs attention = attention_args(step, first_row, layer);
  backend_.attention(attention);
  if (step.hook != nullptr) step.hook->after_attention({layer, attention}, step.sequence->cache());
}

AttentionArgs Transformer::attention_args(const ForwardStep& step, std::int64_t first_row,
                                          std::int64_t layer) {
  const std::int64_t out_width = config_.n_heads * config_.head_dim;
  AttentionArgs args{
      .q = qkv_.as<float>() + first_row * qkv_width_,
      .q_stride = qkv_width_,
      .out = attended_.as<std::byte>() +
             static_cast<std::size_t>(first_row * out_width) * dtype_size(model_.compute()),
      .out_dtype = model_.compute(),
      .n_tokens = std::ssize(step.ids),
      .n_heads = config_.n_heads,
      .head_dim = config_.head_dim,
      .scale = static_cast<float>(config_.attention_scale),
      .kv = step.sequence->cache().view(layer),
      .kv_dtype = step.sequence->cache().shape().dtype,
      .q_positions = step.sequence->positions().data(),
      .window = config_.window_of(layer).value_or(kUnlimited),
      .log_sum_exp =
          step.want_log_sum_exp ? log_sum_exp_.as<float>() + first_row * config_.n_heads : nullptr,
      .logit_cap = static_cast<float>(config_.attention_logit_cap),
      .alibi_slopes = config_.alibi_slopes.empty() ? nullptr : config_.alibi_slopes.data(),
      .off_by_one = softmax_off_by_one_};
  step.sequence->describe(layer, args);
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

void Transformer::logits(std::int64_t first_row, std::span<float> logits) {
  const std::int64_t n_rows = std::ssize(logits) / config_.vocab_size;
  std::int64_t first_id = 0;
  for (const LinearWeight* block : vocabulary_) {
    const std::int64_t width = block->out_features();
    const std::size_t bytes = static_cast<std::size_t>(n_rows * width) * sizeof(float);
    if (logits_.bytes() < bytes) logits_ = backend_.allocate(bytes);
    backend_.linear(*block, {.x = hidden_row(first_row),
                             .y = logits_.as<float>(),
                             .n_rows = n_rows,
                             .accumulate = false});
    for (std::int64_t row = 0; row < n_rows; ++row) {
      backend_.copy_out(logits.data() + row * config_.vocab_size + first_id,
                        logits_.as<float>() + row * width,
                        static_cast<std::size_t>(width) * sizeof(float));
    }
    first_id += width;
  }
  const auto factor = static_cast<float>(config_.logit_scale);
  const auto cap = static_cast<float>(config_.logit_cap);
  if (factor == 1.0f && cap <= 0.0f) return;
  for (float& logit : logits) {
    logit *= factor;
    if (cap > 0.0f) logit = cap * std::tanh(logit / cap);
  }
}

}  // namespace kvbench
