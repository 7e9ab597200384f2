// The softmax weights of one step's queries over what is stored, on the host: what an observer of a
// session reads from a layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "core/buffer.hpp"
#include "model/transformer.hpp"

namespace kvbench {

class StepWeights {
 public:
  // The backend must outlive it.
  explicit StepWeights(Backend& backend) : backend_(backend) {}

  // The state's attention must have its log_sum_exp, and no sinks.
  void read(const LayerState& state);
  // Of one query head and token of the step: [length of its KV head].
  std::span<const float> row(std::int64_t head, std::int64_t token) const;

  // Tokens that a step may have so that its weights over `length` entries fit into moderate memory:
  // at least 1, at most `wanted`.
  static std::int64_t tokens_per_step(std::int64_t n_heads, std::int64_t length,
                                      std::int64_t wanted);

 private:
  Backend& backend_;
  Buffer weights_;                     // [n_heads, n_tokens, row_stride] f32
  std::vector<float> host_;            // copy of weights_
  std::vector<std::int64_t> lengths_;  // [n_kv_heads]
  std::int64_t n_tokens_ = 0;
  std::int64_t row_stride_ = 0;
  std::int64_t group_ = 1;
};

}  // namespace kvbench
