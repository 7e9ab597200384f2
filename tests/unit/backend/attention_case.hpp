// One attention call with random contents, and the same call as plain loops in double, written
// from the contract in backend.hpp: which slots a query sees, and how each side is rotated.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "backend/backend.hpp"
#include "tests/unit/backend/random_values.hpp"

namespace kvbench::test {

struct AttentionShape {
  std::int64_t head_dim = 16;
  std::int64_t group = 1;
  std::int64_t n_kv_heads = 2;
  std::int64_t n_tokens = 5;
  std::int64_t stored = 70;  // slots before the queries' own, in the first head
  std::int64_t ragged = 0;   // each further head has so many fewer of those
  DType kv_dtype = DType::f32;
  DType out_dtype = DType::f32;
  std::int64_t rotary_dim = 16;  // 0: no rotation
  bool interleaved = false;
  bool by_slot = false;  // keys are stored un-rotated and turned on reading
  bool gaps = false;     // stored positions skip some, as after eviction
  std::int64_t sinks = 0;
  std::int64_t recent = kUnlimited;
  std::int64_t window = kUnlimited;
  bool distance_by_slot = false;  // without rotation: distances are counted in slots
  float logit_cap = 0.0f;
  bool alibi = false;
  bool off_by_one = false;
  std::int64_t sink_slot_limit = kUnlimited;  // by_slot: where later queries stand for the sinks
  std::uint64_t seed = 1;
};

class AttentionCase {
 public:
  explicit AttentionCase(const AttentionShape& shape) : shape_(shape), rng_(shape.seed) {
    const std::int64_t width = shape.n_kv_heads * shape.group * shape.head_dim;
    q_stride_ = width + 3;  // rows of a wider matrix
    q_ = random_floats(rng_, shape.n_tokens * q_stride_);
    for (std::int64_t head = 0; head < shape.n_kv_heads; ++head) add_head(head);
    const std::int64_t first = positions_[0].back() - shape.n_tokens + 1;
    for (std::int64_t i = 0; i < shape.n_tokens; ++i) {
      q_positions_.push_back(static_cast<std::int32_t>(first + i));
    }
    fill_rotation();
    for (std::int64_t head = 0; head < n_heads(); ++head) {
      slopes_.push_back(static_cast<float>(std::exp2(-1.0 - static_cast<double>(head))));
    }
    out_f32_.assign(static_cast<std::size_t>(shape.n_tokens * width), NAN);
    out_bf16_.assign(out_f32_.size(), 0x7FC0);
    log_sum_exp_.assign(static_cast<std::size_t>(shape.n_tokens * n_heads()), NAN);
  }

  std::int64_t n_heads() const { return shape_.n_kv_heads * shape_.group; }
  std::int64_t length(std::int64_t kv_head) const {
    return static_cast<std::int64_t>(positions_[static_cast<std::size_t>(kv_head)].size());
  }
  std::int64_t longest() const { return length(0); }

  AttentionArgs args() {
    views_.clear();
    const bool bf16 = shape_.kv_dtype == DType::bf16;
    for (std::size_t head = 0; head < positions_.size(); ++head) {
      views_.push_back({bf16 ? static_cast<const void*>(keys_bf16_[head].data())
                             : static_cast<const void*>(keys_[head].data()),
                        bf16 ? static_cast<const void*>(values_bf16_[head].data())
                             : static_cast<const void*>(values_[head].data()),
                        positions_[head].data(), length(static_cast<std::int64_t>(head))});
    }
    AttentionArgs args{};
    args.q = q_.data();
    args.q_stride = q_stride_;
    args.out = shape_.out_dtype == DType::bf16 ? static_cast<void*>(out_bf16_.data())
                                               : static_cast<void*>(out_f32_.data());
    args.out_dtype = shape_.out_dtype;
    args.n_tokens = shape_.n_tokens;
    args.n_heads = n_heads();
    args.head_dim = shape_.head_dim;
    args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape_.head_dim)));
    args.kv = views_;
    args.kv_dtype = shape_.kv_dtype;
    args.q_positions = q_positions_.data();
    args.sinks = shape_.sinks;
    args.recent = shape_.recent;
    args.window = shape_.window;
    args.rope_shape = {shape_.rotary_dim, shape_.interleaved};
    if (shape_.rotary_dim > 0) args.q_rope = {q_cos_.data(), q_sin_.data()};
    if (shape_.by_slot) args.slot_rope = {slot_cos_.data(), slot_sin_.data()};
    if (own_sink_rotation()) {
      args.q_rope_sink = {sink_cos_.data(), sink_sin_.data()};
      args.q_sink_positions = sink_positions_.data();
    }
    args.log_sum_exp = log_sum_exp_.data();
    args.distance_by_slot = shape_.distance_by_slot;
    args.logit_cap = shape_.logit_cap;
    if (shape_.alibi) args.alibi_slopes = slopes_.data();
    args.off_by_one = shape_.off_by_one;
    return args;
  }

  std::vector<float> output() const {
    return shape_.out_dtype == DType::bf16 ? widen(out_bf16_) : out_f32_;
  }
  const std::vector<float>& log_sum_exp() const { return log_sum_exp_; }

  struct Expected {
    std::vector<double> output;                // [n_tokens, n_heads, head_dim]
    std::vector<double> log_sum_exp;           // [n_tokens, n_heads]
    std::vector<std::vector<double>> weights;  // [n_heads * n_tokens][slots], head by head
  };

  Expected expected() const {
    Expected result;
    result.output.resize(static_cast<std::size_t>(shape_.n_tokens * n_heads() * shape_.head_dim));
    result.log_sum_exp.resize(static_cast<std::size_t>(shape_.n_tokens * n_heads()));
    for (std::int64_t head = 0; head < n_heads(); ++head) {
      for (std::int64_t token = 0; token < shape_.n_tokens; ++token) attend(head, token, result);
    }
    return result;
  }

 private:
  using Row = std::vector<double>;

  bool own_sink_rotation() const {
    return (shape_.by_slot || shape_.distance_by_slot) && shape_.sinks > 0;
  }

  void add_head(std::int64_t head) {
    std::vector<std::int32_t> positions;
    std::int32_t position = 0;
    const std::int64_t stored = std::max<std::int64_t>(0, shape_.stored - head * shape_.ragged);
    for (std::int64_t slot = 0; slot < stored; ++slot) {
      positions.push_back(position);
      const bool may_skip = shape_.gaps && position >= shape_.sinks;
      position += 1 + static_cast<std::int32_t>(may_skip ? rng_.below(4) : 0);
    }
    // The queries' own entries are the last slots, at the same positions in every head.
    const std::int64_t own = shape_.stored * 4;
    for (std::int64_t i = 0; i < shape_.n_tokens; ++i) {
      positions.push_back(static_cast<std::int32_t>((shape_.gaps ? own : shape_.stored) + i));
    }
    const auto n = static_cast<std::int64_t>(positions.size()) * shape_.head_dim;
    keys_.push_back(rounded(random_floats(rng_, n), shape_.kv_dtype));
    values_.push_back(rounded(random_floats(rng_, n), shape_.kv_dtype));
    keys_bf16_.push_back(to_bf16(keys_.back()));
    values_bf16_.push_back(to_bf16(values_.back()));
    positions_.push_back(std::move(positions));
  }

  void add_rows(const std::vector<std::int32_t>& places, std::vector<float>& cosine,
                std::vector<float>& sine) const {
    for (const std::int32_t place : places) {
      for (std::int64_t i = 0; i < shape_.rotary_dim / 2; ++i) {
        const double angle = place * std::pow(10000.0, -2.0 * static_cast<double>(i) /
                                                           static_cast<double>(shape_.rotary_dim));
        cosine.push_back(static_cast<float>(std::cos(angle)));
        sine.push_back(static_cast<float>(std::sin(angle)));
      }
    }
  }

  // by_slot queries stand at their own slots, which only heads of equal length have in common.
  void fill_rotation() {
    std::vector<std::int32_t> places = q_positions_;
    if (counts_slots()) {
      std::iota(places.begin(), places.end(),
                static_cast<std::int32_t>(longest() - shape_.n_tokens));
      std::vector<std::int32_t> slots(static_cast<std::size_t>(longest()));
      std::iota(slots.begin(), slots.end(), 0);
      add_rows(slots, slot_cos_, slot_sin_);
      for (const std::int32_t place : places) {
        sink_positions_.push_back(
            static_cast<std::int32_t>(std::min<std::int64_t>(place, shape_.sink_slot_limit)));
      }
      add_rows(sink_positions_, sink_cos_, sink_sin_);
    }
    add_rows(places, q_cos_, q_sin_);
  }

  Row rotate(const float* x, const std::vector<float>& cosine, const std::vector<float>& sine,
             std::int64_t row) const {
    Row turned(x, x + shape_.head_dim);
    const std::int64_t half = shape_.rotary_dim / 2;
    for (std::int64_t i = 0; i < half; ++i) {
      const auto a = static_cast<std::size_t>(shape_.interleaved ? 2 * i : i);
      const auto b = static_cast<std::size_t>(shape_.interleaved ? 2 * i + 1 : i + half);
      const double c = cosine[static_cast<std::size_t>(row * half + i)];
      const double s = sine[static_cast<std::size_t>(row * half + i)];
      turned[a] = x[a] * c - x[b] * s;
      turned[b] = x[b] * c + x[a] * s;
    }
    return turned;
  }

  bool counts_slots() const { return shape_.by_slot || shape_.distance_by_slot; }

  // How far the query stands from the slot, as rotation, the model's window and ALiBi see it.
  std::int64_t distance(std::int64_t kv_head, std::int64_t token, std::int64_t slot,
                        bool sink) const {
    if (!counts_slots()) {
      return q_positions_[static_cast<std::size_t>(token)] -
             positions_[static_cast<std::size_t>(kv_head)][static_cast<std::size_t>(slot)];
    }
    if (sink && own_sink_rotation()) return sink_positions_[static_cast<std::size_t>(token)] - slot;
    return length(kv_head) - shape_.n_tokens + token - slot;
  }

  bool sees(std::int64_t kv_head, std::int64_t token, std::int64_t slot, bool sink) const {
    const std::int64_t position =
        positions_[static_cast<std::size_t>(kv_head)][static_cast<std::size_t>(slot)];
    const std::int64_t own = q_positions_[static_cast<std::size_t>(token)];
    if (position > own || (!sink && own - position > shape_.recent)) return false;
    return distance(kv_head, token, slot, sink) < shape_.window;
  }

  void attend(std::int64_t head, std::int64_t token, Expected& result) const {
    const std::int64_t d = shape_.head_dim;
    const std::int64_t kv_head = head / shape_.group;
    const auto kv = static_cast<std::size_t>(kv_head);
    const float* q = q_.data() + token * q_stride_ + head * d;
    const Row turned = rotate(q, q_cos_, q_sin_, token);
    const Row for_sinks = own_sink_rotation() ? rotate(q, sink_cos_, sink_sin_, token) : turned;
    const auto n = static_cast<std::size_t>(length(kv_head));
    Row scores(n, -INFINITY);
    for (std::size_t slot = 0; slot < n; ++slot) {
      const bool sink = positions_[kv][slot] < shape_.sinks;
      if (!sees(kv_head, token, static_cast<std::int64_t>(slot), sink)) continue;
      const float* stored = keys_[kv].data() + static_cast<std::int64_t>(slot) * d;
      const Row key = shape_.by_slot
                          ? rotate(stored, slot_cos_, slot_sin_, static_cast<std::int64_t>(slot))
                          : Row(stored, stored + d);
      const Row& query = sink ? for_sinks : turned;
      double score = std::inner_product(query.begin(), query.end(), key.begin(), 0.0) /
                     std::sqrt(static_cast<double>(d));
      if (shape_.logit_cap > 0.0f) {
        score = shape_.logit_cap * std::tanh(score / shape_.logit_cap);
      }
      if (shape_.alibi) {
        score -=
            slopes_[static_cast<std::size_t>(head)] *
            static_cast<double>(distance(kv_head, token, static_cast<std::int64_t>(slot), sink));
      }
      scores[slot] = score;
    }
    double maximum = *std::max_element(scores.begin(), scores.end());
    if (shape_.off_by_one) maximum = std::max(maximum, 0.0);
    double sum = shape_.off_by_one ? std::exp(-maximum) : 0.0;
    for (const double score : scores) sum += std::exp(score - maximum);
    Row weights(n);
    double* out = result.output.data() + (token * n_heads() + head) * d;
    for (std::size_t slot = 0; slot < n; ++slot) {
      weights[slot] = std::exp(scores[slot] - maximum) / sum;
      const float* value = values_[kv].data() + static_cast<std::int64_t>(slot) * d;
      for (std::int64_t i = 0; i < d; ++i) out[i] += weights[slot] * value[i];
    }
    result.log_sum_exp[static_cast<std::size_t>(token * n_heads() + head)] =
        maximum + std::log(sum);
    result.weights.push_back(std::move(weights));
  }

  AttentionShape shape_;
  Rng rng_;
  std::int64_t q_stride_ = 0;
  std::vector<float> q_;                           // [n_tokens, q_stride]
  std::vector<std::vector<float>> keys_, values_;  // [n_kv_heads][slots, head_dim]
  std::vector<std::vector<std::uint16_t>> keys_bf16_, values_bf16_;  // the same as bf16 bits
  std::vector<std::vector<std::int32_t>> positions_;                 // [n_kv_heads][slots]
  std::vector<std::int32_t> q_positions_, sink_positions_;           // [n_tokens]
  std::vector<float> q_cos_, q_sin_, sink_cos_, sink_sin_, slot_cos_, slot_sin_;
  std::vector<float> slopes_;  // [n_heads]
  std::vector<KvHeadView> views_;
  std::vector<float> out_f32_;
  std::vector<std::uint16_t> out_bf16_;
  std::vector<float> log_sum_exp_;
};

}  // namespace kvbench::test
