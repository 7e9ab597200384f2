// The SIMD inner loops of the CPU backend, compiled for several instruction sets and chosen at
// run time (Highway). Everything here works on small tiles in f32 and knows no model and no cache.
#pragma once

#include <cstdint>

#include "backend/cpu/product_kernel.hpp"

namespace kvbench::tile {

// One step of the online softmax over a block of keys, for n_queries queries side by side:
// masks the scores outside [first_key, last_key), turns them into exp(score - maximum), and
// rescales what was gathered before under a lower maximum.
struct SoftmaxArgs {
  float* scores;                  // [n_keys, n_queries] in: scores; out: weights
  const std::int32_t* first_key;  // [n_queries] keys below are masked; null: no mask in this block
  const std::int32_t* last_key;   // [n_queries] keys from here on are masked
  float* maximum;                 // [n_queries] running maximum, -inf at first
  float* sum;                     // [n_queries] running sum of weights, 0 at first
  float* output;                  // [n_output, n_queries] running weighted sum of values
  std::int64_t n_keys;
  std::int64_t n_queries;  // multiple of kPad
  std::int64_t n_output;
};
void softmax_step(const SoftmaxArgs& args);

// Softmax weights of a block of scores, given each query's log-sum-exp; masked ones become 0.
struct WeightsArgs {
  float* scores;                  // [n_keys, n_queries] in: scores; out: weights
  const std::int32_t* first_key;  // [n_queries] as in SoftmaxArgs
  const std::int32_t* last_key;   // [n_queries]
  const float* log_sum_exp;       // [n_queries]
  std::int64_t n_keys;
  std::int64_t n_queries;  // multiple of kPad
};
void weights_from_scores(const WeightsArgs& args);

// Folds one row's block of logits into a running log-sum-exp: afterwards
// log(sum) + maximum is the log-sum-exp of everything folded so far. Start with -inf and 0.
struct LogSumExp {
  float maximum;
  double sum;
};
void fold_logits(const float* logits, std::int64_t n, LogSumExp& state);

// Sum of squares, accumulated in several lanes.
float sum_of_squares(const float* x, std::int64_t n);
// out = x * weight * factor, [n] each.
void scale_by(const float* x, const float* weight, float factor, std::int64_t n, float* out);

// Turns the pairs (row[i], row[half + i]) by the angles of cosine and sine, [half] each.
void rotate_halves(float* row, const float* cosine, const float* sine, std::int64_t half);

void bf16_to_floats(const std::uint16_t* x, std::int64_t n, float* out);
void floats_to_bf16(const float* x, std::int64_t n, std::uint16_t* out);

// Name of the instruction set in use: "AVX3", "AVX2", ...
const char* instruction_set();

}  // namespace kvbench::tile
