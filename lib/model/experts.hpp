// Mixture of experts: a router picks some of a layer's MLPs for each token (arXiv:2401.04088,
// section 2.1). Tokens are computed expert by expert, so that each expert is one matrix product.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "core/buffer.hpp"
#include "model/mlp.hpp"
#include "model/model.hpp"
#include "model/residual_stream.hpp"

namespace kvbench {

struct PickedExpert {
  std::int32_t expert;
  float weight;
};

// The `n_active` experts with the largest logits, in that order; of equal ones the lower index.
// Their weights are the softmax over all experts, scaled to sum to 1.
std::vector<PickedExpert> pick_experts(std::span<const float> logits, std::int64_t n_active);

class Experts {
 public:
  // All must outlive it.
  Experts(const Model& model, Backend& backend, std::int64_t max_tokens, Mlp& mlp,
          ResidualStream& stream);

  // Adds the experts' outputs for the tokens last read from the stream.
  void add_outputs(const LayerWeights& weights, std::int64_t n_tokens);

 private:
  // The tokens that go to one expert.
  struct Assignment {
    std::vector<std::int32_t> rows;  // of the step
    std::vector<float> weights;
  };

  void route(const LinearWeight& router, std::int64_t n_tokens);

  const Model& model_;
  const ModelConfig& config_;
  Backend& backend_;
  Mlp& mlp_;
  ResidualStream& stream_;
  Buffer logits_;    // [max_tokens, n_experts] f32
  Buffer gathered_;  // [max_tokens, hidden] compute dtype
  Buffer output_;    // [max_tokens, hidden] f32
  std::vector<float> host_logits_;
  std::vector<Assignment> assignments_;  // [n_experts]
};

}  // namespace kvbench
