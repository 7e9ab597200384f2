// The operations that a device must provide, coarse enough that the one forward pass
// (model/transformer.cpp) is written over them and nothing else.
//
// Conventions for every operation:
// - Pointers are in the backend's own memory unless a comment says host. Shapes stand beside them.
// - Rows are row-major; `*_stride` counts elements from one row to the next.
// - Accumulation, softmax and loss are at least f32, whatever the compute dtype.
// - Work may be queued: results are on the host after `copy_out` or `synchronize`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backend/quantised_rows.hpp"
#include "core/buffer.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/layer_kinds.hpp"
#include "core/tensor.hpp"

namespace kvbench {

// A matrix prepared for products, in whatever layout the backend likes best.
class LinearWeight {
 public:
  virtual ~LinearWeight() = default;
  virtual std::int64_t in_features() const = 0;
  virtual std::int64_t out_features() const = 0;
  virtual std::size_t bytes() const = 0;  // memory of the prepared copy
};

// A table of rows to look up by index.
class EmbeddingTable {
 public:
  virtual ~EmbeddingTable() = default;
};

// y = x W^T + bias, or y += x W^T + bias.
struct LinearArgs {
  const void* x;  // [n_rows, in_features], compute dtype of the weight, dense rows
  float* y;       // [n_rows, out_features], dense rows
  std::int64_t n_rows;
  bool accumulate;    // add to y (the residual stream) in place of overwriting it
  float clip = 0.0f;  // above 0: the finished y is clamped to [-clip, clip]
};

struct NormArgs {
  const float* x;       // [n_rows, width], rows `x_stride` apart
  void* out;            // [n_rows, width] of out_dtype, rows `out_stride` apart; may alias x if f32
  const float* weight;  // [width]; unused by NormKind::none
  std::int64_t n_rows;
  std::int64_t width;
  std::int64_t x_stride;
  std::int64_t out_stride;
  double epsilon;
  NormKind kind;
  DType out_dtype;
  const float* bias = nullptr;  // [width], NormKind::layer only; null: none
  bool accumulate = false;      // f32 only: add to out in place of overwriting it
};

// out = activation(gate) * up, where gate and up are the two halves of one row; or, not `gated`,
// out = activation(row).
struct GatedActivationArgs {
  const float* gate_up;  // [n_rows, 2 * width]: gate, then up; [n_rows, width] when not gated
  void* out;             // [n_rows, width] of out_dtype
  std::int64_t n_rows;
  std::int64_t width;
  Activation activation;
  DType out_dtype;
  bool gated = true;
};

// Row i of x, times weights[i], is added to row rows[i] of y. Rows may repeat.
struct AddRowsArgs {
  const float* x;            // [n_rows, width], dense
  float* y;                  // [., width], dense
  const std::int32_t* rows;  // host, [n_rows]
  const float* weights;      // host, [n_rows]
  std::int64_t n_rows;
  std::int64_t width;
};

// Row rows[i] of x becomes row i of out.
struct GatherRowsArgs {
  const void* x;             // [., row_bytes], dense
  void* out;                 // [n_rows, row_bytes], dense
  const std::int32_t* rows;  // host, [n_rows]
  std::int64_t n_rows;
  std::size_t row_bytes;
};

// Rows of rotary cosines and sines, attention factor included. Each row belongs to one rotary
// position; which position a token or slot has is the caller's business.
struct RopeRows {
  const float* cosine = nullptr;  // [n, rotary_dim / 2]
  const float* sine = nullptr;    // [n, rotary_dim / 2]
};

struct RopeShape {
  std::int64_t rotary_dim = 0;  // leading dimensions of a head that rotate; 0: no rotation
  bool interleaved = false;     // pairs (2i, 2i+1) in place of (i, i + rotary_dim / 2)
};

// New keys and values of one layer, written behind the stored rows of each KV head.
struct KvAppendArgs {
  const float* k;  // [n_tokens, n_kv_heads, head_dim], rows `stride` apart
  const float* v;  // [n_tokens, n_kv_heads, head_dim], rows `stride` apart
  std::int64_t stride;
  std::int64_t n_tokens;
  std::int64_t head_dim;
  std::span<void* const> k_rows;  // host array, per KV head: first free row, [., head_dim]
  std::span<void* const> v_rows;  // host array, per KV head: first free row, [., head_dim]
  DType kv_dtype;
  RopeRows rope;  // one row per token: rotate k on writing; null: store as is
  RopeShape rope_shape;
};

// One run of rows that moves inside a slab: dst_row + i <- src_row + i. Runs may overlap.
struct RowMove {
  void* slab;
  std::int64_t dst_row;
  std::int64_t src_row;
  std::int64_t n_rows;
};

// What is stored for one KV head of one layer. Slots are ordered by position, ascending. The first
// slots may be quantised, of keys and of values not equally many; `keys` and `values` are the rows
// of the slots after those.
struct KvHeadView {
  const void* keys;               // [length - quantised_keys.n_rows, head_dim] of kv_dtype
  const void* values;             // [length - quantised_values.n_rows, head_dim] of kv_dtype
  const std::int32_t* positions;  // host, [length]: each slot's place in the text
  std::int64_t length;
  QuantisedRows quantised_keys = {};
  QuantisedRows quantised_values = {};
};

constexpr std::int64_t kUnlimited = INT64_C(1) << 62;

// Attention of n_tokens queries over the stored entries of their KV heads, the queries' own
// included. Query i sees slot j when
//   position_j <= q_position_i, and
//   position_j < sinks or q_position_i - position_j <= recent, and
//   the rotary distance between them is below `window` (the model's own sliding window).
// The queries' own entries are the last n_tokens slots. With slot_rope or distance_by_slot,
// distance is counted in slots (towards a sink from q_sink_positions, where given), else in
// positions.
//   score = cap(scale * q . k) - slope * distance, then softmax, where
//   cap(x) = logit_cap * tanh(x / logit_cap).
struct AttentionArgs {
  const float* q;         // [n_tokens, n_heads, head_dim], not rotated
  std::int64_t q_stride;  // elements between tokens of q
  void* out;              // [n_tokens, n_heads * head_dim] of out_dtype, dense
  DType out_dtype;
  std::int64_t n_tokens;
  std::int64_t n_heads;
  std::int64_t head_dim;
  float scale;                     // 1 / sqrt(head_dim), usually
  std::span<const KvHeadView> kv;  // host array, [n_kv_heads]; n_heads is a multiple of it
  DType kv_dtype;
  const std::int32_t* q_positions;  // host, [n_tokens], ascending
  std::int64_t sinks = 0;
  std::int64_t recent = kUnlimited;
  std::int64_t window = kUnlimited;
  RopeShape rope_shape = {};
  RopeRows q_rope = {};       // one row per token
  RopeRows q_rope_sink = {};  // one row per token, towards the sinks; null: q_rope
  const std::int32_t* q_sink_positions = nullptr;  // host, [n_tokens]: the rotary positions of
                                                   // q_rope_sink; null: q_positions
  RopeRows slot_rope = {};        // one row per slot: keys are stored un-rotated and turned
                                  // on reading; null: keys are stored rotated
  float* log_sum_exp = nullptr;   // [n_tokens, n_heads]: log of the softmax denominators, if wanted
  bool distance_by_slot = false;  // as slot_rope says, for layers that rotate nothing
  float logit_cap = 0.0f;         // 0: no cap
  const float* alibi_slopes = nullptr;  // host, [n_heads]: ALiBi; null: none
  bool off_by_one = false;              // 1 is added to every softmax denominator
};

// The softmax weights of an attention call, from the log-sum-exp that it left: one row per query,
// or their sum over the tokens (the mass that each entry received).
struct AttentionWeightsArgs {
  AttentionArgs attention;   // as it was called, over the same entries; no sinks, `out` is unused
  const float* log_sum_exp;  // [n_tokens, n_heads]
  float* weights;            // [n_heads, n_tokens, row_stride], or [n_heads, row_stride] if summed;
                             // slots beyond a head's length are not written
  std::int64_t row_stride;   // at least the longest head's length
  bool sum_tokens;
};

// Rows to codes as by quantise_rows, in the backend's memory.
struct QuantiseCall {
  QuantiseArgs args;
  // [1], in the backend's memory: lowered to first_id + row, for the first row of each group that
  // cannot be stored. What is then written for it is undefined.
  std::uint32_t* failure;
  std::uint32_t first_id;
};

struct NllArgs {
  const void* hidden;  // [n_rows, in_features], compute dtype of the weights
  std::span<const LinearWeight* const> vocabulary;  // consecutive blocks of rows of the head
  const std::int32_t* targets;                      // host, [n_rows]
  double* nll;                                      // host, [n_rows]: -log p(target), natural log
  std::int64_t n_rows;
  double logit_scale = 1.0;
  double logit_cap =
      0.0;  // above 0: logits become logit_cap * tanh(logit / logit_cap), once scaled
};

// Arithmetic beyond that of the Llama family, which a backend may lack.
enum class Feature : std::uint8_t {
  layer_norm,           // NormKind::layer
  unnormed_input,       // NormKind::none
  output_norm,          // NormArgs::accumulate
  plain_mlp,            // GatedActivationArgs::gated == false
  experts,              // gather_rows, add_rows
  position_table,       // add_rows
  embedding_scale,      // scale
  clip,                 // LinearArgs::clip
  unrotated_layer,      // AttentionArgs::distance_by_slot
  alibi,                // AttentionArgs::alibi_slopes
  attention_logit_cap,  // AttentionArgs::logit_cap
  logit_cap,            // NllArgs::logit_cap
  softmax_off_by_one,   // AttentionArgs::off_by_one
  quantised_kv          // quantise, and KvHeadView::quantised_keys and quantised_values
};
std::string_view feature_name(Feature feature);

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  virtual int threads() const = 0;
  // Whether the fields and operations of the feature are implemented; the others may be ignored by
  // this backend, so a model that needs one must not run on it.
  virtual bool supports(Feature) const { return false; }

  // Where what is prepared from now on stands in the model: the share of the weights' bytes that
  // come before it, 0 to 1. Backends that spread a model over devices go by it.
  virtual void place(double) {}
  // Operations until end_step() belong to one forward pass over so many tokens, and are queued
  // together where that is worth it. They may be queued late: nothing else changes.
  virtual void begin_step(std::int64_t) {}
  virtual void end_step() {}

  // Zeroed memory. DeviceError with the size when there is none.
  virtual Buffer allocate(std::size_t bytes, MemoryMeter* meter = nullptr) = 0;
  virtual void copy_in(void* destination, const void* host_source, std::size_t bytes) = 0;
  virtual void copy_out(void* host_destination, const void* source, std::size_t bytes) = 0;
  // Within the backend's memory; the two must not overlap.
  virtual void copy_rows(void* destination, const void* source, std::size_t bytes) = 0;
  virtual void synchronize() = 0;
  // From the memory of another backend of the same kind, after what is queued there now and before
  // what is queued here later.
  virtual void copy_from(Backend& other, void* destination, const void* source, std::size_t bytes) {
    std::vector<std::byte> host(bytes);
    other.copy_out(host.data(), source, bytes);
    copy_in(destination, host.data(), bytes);
  }

  // The rows of `parts` ([out_i, in] each) stacked into one matrix, rounded to `compute`
  // (f32 or bf16). `biases` is empty or has one entry per part, a null data pointer meaning none.
  virtual std::unique_ptr<LinearWeight> make_linear(std::span<const TensorView> parts,
                                                    std::span<const TensorView> biases,
                                                    DType compute) = 0;
  // The view must outlive the table: a backend in host memory reads the mapped rows.
  virtual std::unique_ptr<EmbeddingTable> make_table(const TensorView& rows) = 0;

  // out [n, width] = rows of the table; ids are on the host and valid.
  virtual void embed(const EmbeddingTable& table, std::span<const std::int32_t> ids,
                     float* out) = 0;
  virtual void norm(const NormArgs& args) = 0;
  virtual void linear(const LinearWeight& weight, const LinearArgs& args) = 0;
  virtual void gated_activation(const GatedActivationArgs& args) = 0;
  virtual void gather_rows(const GatherRowsArgs&) { throw InternalError("no gather_rows"); }
  virtual void add_rows(const AddRowsArgs&) { throw InternalError("no add_rows"); }
  // x [n] *= factor
  virtual void scale(float*, std::int64_t, float) { throw InternalError("no scale"); }
  virtual void kv_append(const KvAppendArgs& args) = 0;
  virtual void move_rows(std::span<const RowMove> moves, std::size_t row_bytes) = 0;
  // Rows of all calls have one dtype.
  virtual void quantise(std::span<const QuantiseCall>) { throw InternalError("no quantise"); }
  virtual void attention(const AttentionArgs& args) = 0;
  virtual void attention_weights(const AttentionWeightsArgs& args) = 0;
  virtual void nll(const NllArgs& args) = 0;

  // Runs work(0) to work(n - 1), which do not depend on each other, at once where the backend can.
  // They may call every operation but make_linear, linear and nll. What the first that failed, in
  // that order, has thrown is thrown.
  virtual void for_each(std::int64_t n, const std::function<void(std::int64_t)>& work) {
    for (std::int64_t i = 0; i < n; ++i) work(i);
  }
};

}  // namespace kvbench
