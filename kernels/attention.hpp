// Attention over a KV cache, exact, by online softmax. Two kernels with one contract: `prefill` for
// many tokens (a block holds a tile of queries and walks over the keys) and `decode` for few (the
// keys of each query are split over blocks, whose partial results are combined). A third gives the
// softmax weights themselves.
//
// Which slots a query sees comes as two ranges, made on the host from positions: the kernels know
// no positions and no patterns. The query heads of a group read their KV head together.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/coded_rows.hpp"
#include "kernels/rope.hpp"

namespace kvbench {

// What one query sees of one KV head: slots [sink_first, sink_last) and [first, last). Both may be
// empty; a query that sees nothing gets zeros.
struct VisibleRanges {
  std::int32_t sink_first, sink_last, first, last;
};

struct KvRows {
  const void* keys;            // [length - coded_keys.n_rows, head_dim]
  const void* values;          // [length - coded_values.n_rows, head_dim]
  const std::int32_t* places;  // [length]: each slot's place, where distances count in positions;
                               // null: a slot's place is its index. Only ALiBi reads it.
  std::int64_t length;
  // What is stored of the first slots; of keys and values not equally many.
  CodedRows coded_keys = {};
  CodedRows coded_values = {};
};

// score -= slope * (the query's place - the slot's place)
struct Alibi {
  const float* slopes = nullptr;                // [n_heads]; null: none
  const std::int32_t* q_places = nullptr;       // [n_tokens], towards [first, last)
  const std::int32_t* q_sink_places = nullptr;  // [n_tokens], towards [sink_first, sink_last)
};

// Device pointers. Preconditions: 0 <= n_tokens, n_heads a positive multiple of n_kv_heads,
// 0 < head_dim <= 256, rotary_dim <= head_dim; keys and values aligned to 16 bytes.
struct AttentionParams {
  const float* q;                // [n_tokens, n_heads, head_dim] before rotation
  std::int64_t q_stride;         // elements between tokens
  void* out;                     // [n_tokens, n_heads, head_dim], f32 or bf16
  const KvRows* kv;              // [n_kv_heads]
  const VisibleRanges* visible;  // [n_kv_heads, n_tokens]
  std::int64_t n_tokens;
  int n_heads;
  int n_kv_heads;
  int head_dim;
  float scale;
  bool kv_bf16;  // keys and values: bf16 or f32
  bool coded;    // some head has coded rows: only attention_decode reads them
  bool out_bf16;
  RopeTable q_rope;              // one row per token, towards [first, last)
  RopeTable q_rope_sink;         // one row per token, towards [sink_first, sink_last)
  RopeTable slot_rope;           // one row per slot, for keys that are stored un-rotated
  float* log_sum_exp = nullptr;  // [n_tokens, n_heads]: log of the softmax denominators, if wanted
  float logit_cap = 0.0f;        // above 0: scores become logit_cap * tanh(score / logit_cap)
  bool off_by_one = false;       // 1 is added to every softmax denominator
  Alibi alibi;
};

constexpr int kMaxHeadDim = 256;

void attention_prefill(const AttentionParams& params, cudaStream_t stream);

// Whether attention_prefill computes on tensor cores: keys, values and output in bf16, and a head
// size with a kernel of its own (64, 80, 96, 128, 256). Rotated queries and keys and the weights of
// the values are then rounded to bf16, sums stay f32. Calls that leave their log-sum-exp stay in
// f32, so that attention_weights finds the same scores.
bool prefill_uses_tensor_cores(const AttentionParams& params);
// attention_prefill's half for these calls.
void attention_prefill_mma(const AttentionParams& params, cudaStream_t stream);

// `partials` has room for decode_partial_floats(params, n_splits) floats; unused for one split.
// Preconditions: n_tokens < 2^16, 0 < n_splits < 2^31.
void attention_decode(const AttentionParams& params, int n_splits, float* partials,
                      cudaStream_t stream);
std::size_t decode_partial_floats(const AttentionParams& params, int n_splits);
// Blocks that attention_decode launches per split.
std::int64_t decode_blocks(const AttentionParams& params);

// The softmax weights of an attention call, from the log-sum-exp that it left. `attention` is as it
// was called, over the same entries; of its ranges only [first, last) count. Slots that a query
// does not see get 0; slots beyond a head's length are not written.
struct AttentionWeightsParams {
  AttentionParams attention;
  const float* log_sum_exp;  // [n_tokens, n_heads]
  float* weights;            // [n_heads, n_tokens, row_stride], or summed over the tokens,
                             // [n_heads, row_stride]
  std::int64_t row_stride;
  std::int64_t longest;  // the longest head's length
  bool sum_tokens;
};

void attention_weights(const AttentionWeightsParams& params, cudaStream_t stream);

}  // namespace kvbench
