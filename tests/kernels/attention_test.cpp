// Attention, CPU against CUDA, through prompts (tiles) and single tokens (splits): every head size
// with a kernel of its own and some without, groups that are no powers of two, heads of different
// lengths with gaps, all visibility rules, all three kinds of rotation, both cache dtypes.
#include <limits>
#include <numeric>

#include "tests/kernels/parity.hpp"

namespace kvbench::test {
namespace {

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
std::vector<std::int32_t> slot_positions(const AttentionCase& c, std::int64_t past,
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

std::vector<float> run_attention(Backend& backend, const AttentionCase& c) {
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
      .alibi_slopes = c.alibi ? slopes.data() : nullptr};
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

void check_attention_case(const AttentionCase& c) {
  check_parity(tolerance_of(c.out_dtype),
               [&](Backend& backend) { return run_attention(backend, c); });
}

TEST_CASE("attention: every head size, one token and a prompt, f32 and bf16 caches") {
  for (const std::int64_t head_dim : {4, 7, 64, 72, 80, 96, 128, 256}) {
    CAPTURE(head_dim);
    for (const std::int64_t n_tokens : {1, 21}) {
      for (const DType kv_dtype : {DType::f32, DType::bf16}) {
        AttentionCase c;
        c.n_tokens = n_tokens;
        c.n_heads = 2;
        c.head_dim = head_dim;
        c.rotary_dim = head_dim / 2 * 2;
        c.past = {70};
        c.kv_dtype = kv_dtype;
        check_attention_case(c);
      }
    }
  }
}

TEST_CASE("attention: groups that are no powers of two, and more heads than a block takes") {
  for (const std::int64_t group : {1, 3, 5, 7, 12}) {
    CAPTURE(group);
    for (const std::int64_t n_tokens : {1, 3, 17, 40}) {
      AttentionCase c;
      c.n_tokens = n_tokens;
      c.past = {33, 5, 0};
      c.n_heads = 3 * group;
      check_attention_case(c);
    }
  }
}

TEST_CASE("attention: lengths around the tiles' sizes, and none before the step") {
  for (const std::int64_t past : {0, 1, 31, 32, 63, 64, 65, 300}) {
    CAPTURE(past);
    for (const std::int64_t n_tokens : {1, 2, 32, 33}) {
      AttentionCase c;
      c.n_tokens = n_tokens;
      c.past = {past};
      c.head_dim = 64;
      c.rotary_dim = 64;
      check_attention_case(c);
    }
  }
}

TEST_CASE("attention: sinks, recent entries and the model's window, by position") {
  for (const std::int64_t n_tokens : {1, 24}) {
    for (const std::int64_t sinks : {0, 2, 4}) {
      for (const std::int64_t recent : {std::int64_t{0}, std::int64_t{9}, kUnlimited}) {
        for (const std::int64_t window : {std::int64_t{7}, std::int64_t{50}, kUnlimited}) {
          AttentionCase c;
          c.n_tokens = n_tokens;
          c.n_heads = 4;
          c.past = {40, 25};
          c.gap = 11;
          c.sinks = sinks;
          c.recent = recent;
          c.window = window;
          check_attention_case(c);
        }
      }
    }
  }
}

TEST_CASE("attention: rotation by slot, sinks seen from where a trimmed cache would have them") {
  for (const std::int64_t n_tokens : {1, 24}) {
    for (const std::int64_t window : {std::int64_t{12}, kUnlimited}) {
      for (const bool interleaved : {false, true}) {
        AttentionCase c;
        c.n_tokens = n_tokens;
        c.n_heads = 6;
        c.past = {40, 40};
        c.gap = 17;
        c.sinks = 2;
        c.recent = 20;
        c.window = window;
        c.rotation = Rotation::by_slot;
        c.rotary_dim = 6;
        c.interleaved = interleaved;
        c.sink_slot_limit = 22;
        check_attention_case(c);
        c.head_dim = 96;
        c.rotary_dim = 96;
        check_attention_case(c);
      }
    }
  }
}

TEST_CASE("attention: without rotation; bf16 output") {
  for (const std::int64_t n_tokens : {1, 20}) {
    AttentionCase c;
    c.n_tokens = n_tokens;
    c.past = {20};
    c.rotation = Rotation::none;
    check_attention_case(c);
    c.out_dtype = DType::bf16;
    check_attention_case(c);
  }
}

TEST_CASE("attention weights: rows and their sums, groups, windows, lengths, head sizes") {
  for (const Weights weights : {Weights::rows, Weights::summed}) {
    for (const std::int64_t n_tokens : {1, 5, 37}) {
      AttentionCase c;
      c.weights = weights;
      c.n_tokens = n_tokens;
      c.n_heads = 6;
      c.past = {70, 33};
      c.gap = 4;
      check_attention_case(c);
      c.recent = 11;
      c.window = 20;
      check_attention_case(c);
      c.past = {0};
      c.n_heads = 5;
      check_attention_case(c);
    }
    for (const std::int64_t head_dim : {64, 80, 96, 128, 256}) {
      AttentionCase c;
      c.weights = weights;
      c.n_tokens = 18;
      c.n_heads = 3;
      c.head_dim = head_dim;
      c.rotary_dim = head_dim;
      c.past = {65};
      c.kv_dtype = DType::bf16;
      check_attention_case(c);
      c.rotation = Rotation::by_slot;
      check_attention_case(c);
    }
  }
}

TEST_CASE("attention: capped scores and ALiBi, by position and by slot") {
  for (const std::int64_t n_tokens : {1, 19}) {
    AttentionCase c;
    c.n_tokens = n_tokens;
    c.n_heads = 6;
    c.past = {40, 40};
    c.gap = 7;
    c.logit_cap = 0.7f;
    check_attention_case(c);
    c.rotation = Rotation::none;
    c.alibi = true;
    check_attention_case(c);
    c.weights = Weights::summed;
    check_attention_case(c);
    c.weights = Weights::none;
    c.sinks = 2;
    c.recent = 20;
    check_attention_case(c);
    c.distance_by_slot = true;
    c.sink_slot_limit = 22;
    check_attention_case(c);
    c.window = 12;
    check_attention_case(c);
  }
}

TEST_CASE("attention: a NaN in a key reaches the queries that see it") {
  for (const std::int64_t n_tokens : {1, 20}) {
    for_each_thread_order([&] {
      CudaBackend backend(1);
      std::vector<float> rows(static_cast<std::size_t>(n_tokens) * 8, 0.5f);
      const Buffer values = upload(backend, rows);
      rows[3] = std::numeric_limits<float>::quiet_NaN();
      const Buffer keys = upload(backend, rows);
      std::vector<std::int32_t> positions(static_cast<std::size_t>(n_tokens));
      std::iota(positions.begin(), positions.end(), 0);
      const KvHeadView view[] = {{keys.as<void>(), values.as<void>(), positions.data(), n_tokens}};
      AttentionArgs args{};
      args.q = values.as<float>();
      args.q_stride = 8;
      Buffer out = backend.allocate(rows.size() * sizeof(float), nullptr);
      args.out = out.as<void>();
      args.n_tokens = n_tokens;
      args.n_heads = 1;
      args.head_dim = 8;
      args.scale = 1.0f;
      args.kv = view;
      args.q_positions = positions.data();
      args.out_dtype = DType::f32;
      args.kv_dtype = DType::f32;
      args.recent = 2;
      backend.attention(args);
      const std::vector<float> found = download(backend, out.as<void>(), rows.size());
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::isnan(found[i]) == (i / 8 <= 2));
    });
  }
}

TEST_CASE("attention weights: one token over several splits") {
  AttentionCase c;
  c.weights = Weights::rows;
  c.past = {500};
  check_attention_case(c);
}

}  // namespace
}  // namespace kvbench::test
