// ResidualStream over a backend's operations.
#include "model/residual_stream.hpp"

#include <algorithm>
#include <numeric>

#include "core/error.hpp"

namespace kvbench {

ResidualStream::ResidualStream(const Model& model, Backend& backend, std::int64_t max_tokens)
    : model_(model), config_(model.config()), backend_(backend) {
  const auto n = static_cast<std::size_t>(max_tokens * config_.hidden_size);
  stream_ = backend.allocate(n * sizeof(float));
  normed_ = backend.allocate(n * dtype_size(model.compute()));
  const bool has_table = config_.positions == PositionKind::table;
  if (config_.output_norms || has_table) branch_ = backend.allocate(n * sizeof(float));
}

void ResidualStream::embed(std::span<const std::int32_t> ids,
                           std::span<const std::int32_t> positions) {
  // Learned sinks lie in a table of their own: runs of them and of the vocabulary's rows in turn.
  for (std::size_t first = 0; first < ids.size();) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end =
        std::find_if(begin, ids.end(), [&](std::int32_t id) { return (id < 0) != (*begin < 0); });
    embed_run({begin, end},
              stream_.as<float>() + static_cast<std::int64_t>(first) * config_.hidden_size);
    first += static_cast<std::size_t>(end - begin);
  }
  const auto n = static_cast<std::int64_t>(ids.size()) * config_.hidden_size;
  if (config_.embedding_scale != 1.0) {
    backend_.scale(stream_.as<float>(), n, static_cast<float>(config_.embedding_scale));
  }
  if (config_.positions != PositionKind::table) return;
  const std::int32_t last = *std::ranges::max_element(positions);
  if (last >= config_.max_positions) {
    config_error("position {} of the text: this {} model has learned {} positions and no more",
                 last, config_.model_type, config_.max_positions);
  }
  backend_.embed(*model_.weights().positions, positions, branch_.as<float>());
  rows_.resize(ids.size());
  std::iota(rows_.begin(), rows_.end(), 0);
  ones_.assign(ids.size(), 1.0f);
  add_rows(branch_.as<float>(), rows_, ones_);
}

void ResidualStream::embed_run(std::span<const std::int32_t> ids, float* out) {
  if (ids.front() >= 0) return backend_.embed(*model_.weights().embedding, ids, out);
  rows_.clear();
  for (const std::int32_t id : ids) rows_.push_back(-1 - id);
  backend_.embed(*model_.weights().sinks, rows_, out);
}

void ResidualStream::read(const NormWeight& norm, std::int64_t n_tokens) {
  backend_.norm({.x = stream_.as<float>(),
                 .out = normed_.as<void>(),
                 .weight = norm.weight.as<float>(),
                 .n_rows = n_tokens,
                 .width = config_.hidden_size,
                 .x_stride = config_.hidden_size,
                 .out_stride = config_.hidden_size,
                 .epsilon = config_.norm_eps,
                 .kind = norm.present() ? config_.norm : NormKind::none,
                 .out_dtype = model_.compute(),
                 .bias = norm.bias.as<float>()});
}

void ResidualStream::add_product(const LinearWeight& weight, const void* x, const NormWeight& norm,
                                 std::int64_t n_tokens) {
  const bool direct = !norm.present();
  float* y = direct ? stream_.as<float>() : branch_.as<float>();
  backend_.linear(weight, {.x = x, .y = y, .n_rows = n_tokens, .accumulate = direct});
  if (!direct) add_norm(y, norm, n_tokens);
}

void ResidualStream::add_norm(const float* x, const NormWeight& norm, std::int64_t n_tokens) {
  backend_.norm({.x = x,
                 .out = stream_.as<void>(),
                 .weight = norm.weight.as<float>(),
                 .n_rows = n_tokens,
                 .width = config_.hidden_size,
                 .x_stride = config_.hidden_size,
                 .out_stride = config_.hidden_size,
                 .epsilon = config_.norm_eps,
                 .kind = config_.norm,
                 .out_dtype = DType::f32,
                 .bias = norm.bias.as<float>(),
                 .accumulate = true});
}

void ResidualStream::add_rows(const float* x, std::span<const std::int32_t> rows,
                              std::span<const float> weights) {
  backend_.add_rows({.x = x,
                     .y = stream_.as<float>(),
                     .rows = rows.data(),
                     .weights = weights.data(),
                     .n_rows = static_cast<std::int64_t>(rows.size()),
                     .width = config_.hidden_size});
}

}  // namespace kvbench
