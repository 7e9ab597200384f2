// The MLP half of a block, for one layer's weights at a time: dense, or one of several experts.
#pragma once

#include <cstdint>

#include "backend/backend.hpp"
#include "core/buffer.hpp"
#include "model/model.hpp"

namespace kvbench {

class Mlp {
 public:
  // Model and backend must outlive it.
  Mlp(const Model& model, Backend& backend, std::int64_t max_tokens);

  // activation(gate(x)) * up(x) or activation(up(x)); x: [n_tokens, hidden], compute dtype.
  // Result: [n_tokens, ffn] in the compute dtype, valid until the next call; `down` is left to the
  // caller.
  const void* inner(const MlpWeights& weights, const void* x, std::int64_t n_tokens);

 private:
  const Model& model_;
  Backend& backend_;
  Buffer gate_up_;    // [max_tokens, 2 * ffn] or [max_tokens, ffn], f32
  Buffer activated_;  // [max_tokens, ffn] compute dtype
};

}  // namespace kvbench
