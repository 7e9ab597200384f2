// The residual stream: what each block reads from, through a norm, and adds its output to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "core/buffer.hpp"
#include "model/model.hpp"

namespace kvbench {

class ResidualStream {
 public:
  // Model and backend must outlive it.
  ResidualStream(const Model& model, Backend& backend, std::int64_t max_tokens);

  // Starts with the embeddings of these tokens (see ForwardStep), at these places of the text.
  void embed(std::span<const std::int32_t> ids, std::span<const std::int32_t> positions);
  // Norms the stream into `normed`; a norm that is not present copies it.
  void read(const NormWeight& norm, std::int64_t n_tokens);
  // stream += norm(weight x), where the norm may be absent. x: [n_tokens, in], compute dtype.
  void add_product(const LinearWeight& weight, const void* x, const NormWeight& norm,
                   std::int64_t n_tokens);
  // stream[rows[i]] += weights[i] x[i]; see Backend::add_rows.
  void add_rows(const float* x, std::span<const std::int32_t> rows, std::span<const float> weights);

  // [n_tokens, hidden] in the compute dtype, as last read.
  const void* normed() const { return normed_.as<void>(); }

 private:
  void embed_run(std::span<const std::int32_t> ids, float* out);
  void add_norm(const float* x, const NormWeight& norm, std::int64_t n_tokens);

  const Model& model_;
  const ModelConfig& config_;
  Backend& backend_;
  Buffer stream_;  // [max_tokens, hidden] f32
  Buffer normed_;  // [max_tokens, hidden] compute dtype
  Buffer branch_;  // [max_tokens, hidden] f32: before an output norm; rows of positions
  std::vector<std::int32_t> rows_;  // [n_tokens] 0, 1, ...; of the table of learned sinks
  std::vector<float> ones_;         // [n_tokens]
};

}  // namespace kvbench
