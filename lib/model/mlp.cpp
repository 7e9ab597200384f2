// Mlp over a backend's operations.
#include "model/mlp.hpp"

namespace kvbench {

Mlp::Mlp(const Model& model, Backend& backend, std::int64_t max_tokens)
    : model_(model), backend_(backend) {
  const ModelConfig& config = model.config();
  const auto n = static_cast<std::size_t>(max_tokens * config.ffn_size);
  gate_up_ = backend.allocate((config.gated_mlp ? 2 : 1) * n * sizeof(float));
  activated_ = backend.allocate(n * dtype_size(model.compute()));
}

const void* Mlp::inner(const MlpWeights& weights, const void* x, std::int64_t n_tokens) {
  backend_.linear(*weights.gate_up,
                  {.x = x, .y = gate_up_.as<float>(), .n_rows = n_tokens, .accumulate = false});
  backend_.gated_activation({.gate_up = gate_up_.as<float>(),
                             .out = activated_.as<void>(),
                             .n_rows = n_tokens,
                             .width = model_.config().ffn_size,
                             .activation = model_.config().activation,
                             .out_dtype = model_.compute(),
                             .gated = model_.config().gated_mlp});
  return activated_.as<void>();
}

}  // namespace kvbench
