// SIMD loops for one query per head: vectors lie along the head, so that stored rows are read once,
// as they are, for all query heads that share them.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"

namespace kvbench::tile {

// Head sizes that the loops take: whole vectors of every instruction set.
constexpr std::int64_t kDecodeStep = 16;

// Stored keys or values of one head, dense.
struct StoredRows {
  const void* rows;  // [n_rows, head_dim] of dtype
  DType dtype;       // f32 or bf16
  std::int64_t n_rows;
  std::int64_t head_dim;  // multiple of kDecodeStep
};

// scores [group, stride] = q [group, head_dim] . keys, over the first n_rows columns.
void decode_scores(const StoredRows& keys, const float* q, std::int64_t group, float* scores,
                   std::int64_t stride);

// output [group, head_dim] += weights [group, stride] . values, over the first n_rows columns.
void decode_values(const StoredRows& values, const float* weights, std::int64_t group,
                   std::int64_t stride, float* output);

// One step of the online softmax over a row of n scores: they become exp(score - maximum), and the
// gathered sum and output [n_output] are rescaled where the maximum rose. Start with -inf and 0.
void decode_softmax(float* scores, std::int64_t n, float& maximum, float& sum, float* output,
                    std::int64_t n_output);

// scores [n] become exp(score - log_sum_exp).
void decode_weights(float* scores, std::int64_t n, float log_sum_exp);

}  // namespace kvbench::tile
