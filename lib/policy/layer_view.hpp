// What a policy may look at in one layer when it selects. The engine gathers only what
// PolicyNeeds asks for; asking the view for more is an error.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvbench {

// A second pass, behind the prompt and over the full cache, whose own entries are dropped again.
// A policy that needs one selects after it, once.
struct ReplayNeeds {
  enum class Tokens : std::uint8_t {
    none,
    prompt,       // the prompt again, `chunk` tokens at a time
    continuation  // the text's own next tokens
  };
  Tokens tokens = Tokens::none;
  // prompt: each chunk follows the instruction's ids (and the last tokens of the chunk before).
  std::int64_t chunk = 0;
  std::vector<std::int32_t> instruction;
  // prompt: the first entries, which the queries of every chunk see beside the chunk itself.
  std::int64_t sinks = 0;
};

// What must be gathered while the model runs, so that the policy can score entries later.
struct PolicyNeeds {
  // Attention rows of the last so many queries over everything stored; 1 is TOVA's last row.
  std::int64_t window = 0;
  // Attention mass that each entry has received from every query since it was stored.
  bool mass = false;
  // Mean and covariance of the prompt's queries before rotation, tokens below `moments_skip` apart.
  bool query_moments = false;
  std::int64_t moments_skip = 0;
  // Products of values with the output projection, made while the policy selects.
  bool output_norms = false;
  ReplayNeeds replay;
};

class LayerView {
 public:
  virtual ~LayerView() = default;

  std::int64_t layer = 0;
  std::int64_t n_layers = 0;
  std::int64_t n_heads = 0;     // query heads
  std::int64_t n_kv_heads = 0;  // query head h belongs to KV head h / group
  std::int64_t head_dim = 0;
  std::int64_t group = 0;
  std::int64_t tokens_seen = 0;  // of the text, this step's included
  std::int64_t capacity = 0;     // entries to keep per KV head
  double scale = 0.0;            // of a query's product with a key, before the softmax

  // Places in the text of a head's entries, ascending: [length].
  virtual std::span<const std::int32_t> positions(std::int64_t kv_head) const = 0;
  std::int64_t length(std::int64_t kv_head) const {
    return static_cast<std::int64_t>(positions(kv_head).size());
  }

  // Needs `window`. Rows there are: the window, or all queries so far where those are fewer. A view
  // that serves several policies may have more; the newest are the last.
  virtual std::int64_t window_rows() = 0;
  // Softmax weights of one query head: row 0 is the oldest query of the window; [length] of the
  // head's KV head, 0 where causality hides an entry.
  virtual std::span<const float> window_row(std::int64_t head, std::int64_t row) = 0;

  // Natural log of that row's softmax denominator: the scores are weights' logarithms plus this.
  virtual double window_log_sum_exp(std::int64_t head, std::int64_t row) = 0;

  // Needs `mass`. Summed over the group's query heads: [length].
  virtual std::span<const double> mass(std::int64_t kv_head) = 0;

  // Needs `query_moments`. Of one query head, in the original basis: [head_dim], and
  // [head_dim, head_dim] divided by the number of queries.
  virtual std::span<const double> query_mean(std::int64_t head) = 0;
  virtual std::span<const double> query_covariance(std::int64_t head) = 0;

  // Needs `replay`. What each entry received in the second pass: [length]. Prompt: the largest
  // weight that one of the group's heads gave it, in a softmax over the sinks, its own chunk and
  // the replayed tokens (off by one where the model's is). Continuation: the sum of all weights.
  virtual std::span<const double> replayed(std::int64_t kv_head) = 0;

  // Stored entries as attention sees them, keys rotated: [length, head_dim], f32.
  virtual std::span<const float> keys(std::int64_t kv_head) = 0;
  virtual std::span<const float> values(std::int64_t kv_head) = 0;

  // Needs `output_norms`. How much each entry can move the hidden state through one query head: the
  // L1 norm of its value times the head's columns of the output projection: [length].
  virtual std::span<const double> output_norms(std::int64_t head) = 0;

  // Radians per position of each rotary pair: [rotary_dim / 2].
  virtual std::span<const double> inv_freq() const = 0;
  // On the cosines and sines of queries and keys alike; 1 but for yarn.
  virtual double rope_attention_factor() const = 0;
  // Pairs are (2i, 2i+1) when true, (i, i + rotary_dim / 2) when false.
  virtual bool rope_interleaved() const = 0;
};

// All layers of a cache, one at a time.
class ModelView {
 public:
  virtual ~ModelView() = default;
  std::int64_t n_layers = 0;
  // Valid until the next call.
  virtual LayerView& layer(std::int64_t index) = 0;
};

}  // namespace kvbench
