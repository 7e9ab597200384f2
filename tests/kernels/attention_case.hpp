// One attention call on any backend: its shape, what it sees, how it rotates, what it is asked for.
#pragma once

#include <numeric>

#include "tests/kernels/parity.hpp"

namespace kvbench::test {

enum class Rotation { none, stored, by_slot };
enum class Weights { none, rows, summed };

struct AttentionCase {
  std::int64_t n_tokens = 1;
  std::int64_t n_heads = 2;
  std::int64_t head_dim = 8;
  std::vector<std::int64_t> past = {10};  // evicted-down entries per KV head, before the step's own
  std::int64_t gap = 0;                   // positions missing before the last `past` entries
  std::int64_t sinks = 0;
  std::int64_t recent = kUnlimited;
  std::int64_t window = kUnlimited;
  Rotation rotation = Rotation::stored;
  std::int64_t rotary_dim = 8;
  bool interleaved = false;
  std::int64_t sink_slot_limit = kUnlimited;  // by_slot: where the sinks see late queries stand
  DType kv_dtype = DType::f32;
  DType out_dtype = DType::f32;
  float logit_cap = 0.0f;
  bool alibi = false;
  bool distance_by_slot = false;
  bool off_by_one = false;
  Weights weights = Weights::none;  // ask for the log-sum-exp and the weights too

  std::int64_t n_kv_heads() const { return static_cast<std::int64_t>(past.size()); }
};

// Cosines and sines of n rotary positions, as a model would make them.
struct Tables {
  std::vector<float> cosine, sine;
  Tables(const std::vector<std::int64_t>& positions, std::int64_t rotary_dim) {
    for (const std::int64_t position : positions) {
      for (std::int64_t i = 0; i < rotary_dim / 2; ++i) {
        const double angle =
            static_cast<double>(position) *
            std::pow(100.0, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
        cosine.push_back(static_cast<float>(std::cos(angle)));
        sine.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }
};

struct DeviceTables {
  Buffer cosine, sine;
  DeviceTables(Backend& backend, const Tables& tables)
      : cosine(upload(backend, tables.cosine)), sine(upload(backend, tables.sine)) {}
  RopeRows rows() const { return {cosine.as<float>(), sine.as<float>()}; }
};

// Positions of one head's slots: a few from the start, then a gap, then up to the step's end.
inline std::vector<std::int32_t> slot_positions(const AttentionCase& c, std::int64_t past,
                                                std::int64_t first_position) {
  std::vector<std::int32_t> positions;
  const std::int64_t front = std::min<std::int64_t>(3, past);
  for (std::int64_t i = 0; i < front; ++i) positions.push_back(static_cast<std::int32_t>(i));
  for (std::int64_t i = past - front; i > 0; --i) {
    positions.push_back(static_cast<std::int32_t>(first_position - i));
  }
  for (std::int64_t i = 0; i < c.n_tokens; ++i) {
    positions.push_back(static_cast<std::int32_t>(first_position + i));
  }
  return positions;
}

inline std::vector<float> run_attention(Backend& backend, const AttentionCase& c) {
  const std::int64_t longest = *std::max_element(c.past.begin(), c.past.end());
  const std::int64_t first_position = longest + c.gap;
  std::vector<std::int32_t> q_positions(static_cast<std::size_t>(c.n_tokens));
  std::iota(q_positions.begin(), q_positions.end(), static_cast<std::int32_t>(first_position));

  std::vector<std::vector<std::int32_t>> positions;
  std::vector<Buffer> keys, values;
  std::vector<KvHeadView> views;
  for (std::int64_t head = 0; head < c.n_kv_heads(); ++head) {
    const std::int64_t past = c.past[static_cast<std::size_t>(head)];
    positions.push_back(slot_positions(c, past, first_position));
    const std::int64_t length = past + c.n_tokens;
    const auto seed = static_cast<unsigned>(100 + head);
    keys.push_back(upload_as(backend, random_values(length * c.head_dim, seed), c.kv_dtype));
    values.push_back(upload_as(backend, random_values(length * c.head_dim, seed + 50), c.kv_dtype));
  }
  for (std::size_t head = 0; head < positions.size(); ++head) {
    views.push_back({keys[head].as<void>(), values[head].as<void>(), positions[head].data(),
                     static_cast<std::int64_t>(positions[head].size())});
  }

  // By slot, all heads are equally long and a query stands at its own slot.
  const bool by_slot = c.rotation == Rotation::by_slot || c.distance_by_slot;
  std::vector<std::int64_t> q_rotary, q_sink_rotary, slots;
  std::vector<std::int32_t> sink_positions;
  for (std::int64_t i = 0; i < c.n_tokens; ++i) {
    const std::int64_t at = by_slot ? longest + i : first_position + i;
    q_rotary.push_back(at);
    q_sink_rotary.push_back(std::min(at, c.sink_slot_limit));
    sink_positions.push_back(static_cast<std::int32_t>(q_sink_rotary.back()));
  }
  for (std::int64_t slot = 0; slot < longest + c.n_tokens; ++slot) slots.push_back(slot);
  const DeviceTables q_rope(backend, Tables(q_rotary, c.rotary_dim));
  const DeviceTables q_sink_rope(backend, Tables(q_sink_rotary, c.rotary_dim));
  const DeviceTables slot_rope(backend, Tables(slots, c.rotary_dim));
  const bool own_sink_rotation = by_slot && c.sinks > 0;

  std::vector<float> slopes;
  for (std::int64_t head = 0; head < c.n_heads; ++head) {
    slopes.push_back(0.03f * static_cast<float>(head + 1));
  }
  const std::int64_t q_stride = c.n_heads * c.head_dim + 5;
  const Buffer q = upload(backend, random_values(c.n_tokens * q_stride, 99));
  const auto n_out = static_cast<std::size_t>(c.n_tokens * c.n_heads * c.head_dim);
  const auto n_rows = static_cast<std::size_t>(c.n_tokens * c.n_heads);
  Buffer out = backend.allocate(n_out * sizeof(float), nullptr);
  Buffer log_sum_exp = backend.allocate(n_rows * sizeof(float), nullptr);
  const AttentionArgs args = {
      .q = q.as<float>(),
      .q_stride = q_stride,
      .out = out.as<void>(),
      .out_dtype = c.out_dtype,
      .n_tokens = c.n_tokens,
      .n_heads = c.n_heads,
      .head_dim = c.head_dim,
      .scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim)),
      .kv = views,
      .kv_dtype = c.kv_dtype,
      .q_positions = q_positions.data(),
      .sinks = c.sinks,
      .recent = c.recent,
      .window = c.window,
      .rope_shape = {c.rotary_dim, c.interleaved},
      .q_rope = c.rotation == Rotation::none ? RopeRows{} : q_rope.rows(),
      .q_rope_sink =
          own_sink_rotation && c.rotation == Rotation::by_slot ? q_sink_rope.rows() : RopeRows{},
      .q_sink_positions = own_sink_rotation ? sink_positions.data() : nullptr,
      .slot_rope = c.rotation == Rotation::by_slot ? slot_rope.rows() : RopeRows{},
      .log_sum_exp = c.weights == Weights::none ? nullptr : log_sum_exp.as<float>(),
      .distance_by_slot = c.distance_by_slot,
      .logit_cap = c.logit_cap,
      .alibi_slopes = c.alibi ? slopes.data() : nullptr,
      .off_by_one = c.off_by_one};
  backend.attention(args);
  std::vector<float> results = download(backend, out.as<void>(), n_out, c.out_dtype);
  if (c.weights == Weights::none) return results;

  const std::int64_t row_stride = longest + c.n_tokens + 3;
  const bool sum = c.weights == Weights::summed;
  const std::vector<float> before(
      static_cast<std::size_t>(c.n_heads * (sum ? 1 : c.n_tokens) * row_stride), -7.0f);
  Buffer weights = upload(backend, before);
  backend.attention_weights({.attention = args,
                             .log_sum_exp = log_sum_exp.as<float>(),
                             .weights = weights.as<float>(),
                             .row_stride = row_stride,
                             .sum_tokens = sum});
  const auto append = [&](const std::vector<float>& more) {
    results.insert(results.end(), more.begin(), more.end());
  };
  append(download(backend, log_sum_exp.as<void>(), n_rows));
  append(download(backend, weights.as<void>(), before.size()));
  return results;
}

}  // namespace kvbench::test
