// Attention, CPU against CUDA, through prompts (tiles) and single tokens (splits): every head size
// with a kernel of its own and some without, groups that are no powers of two, heads of different
// lengths with gaps, all visibility rules, all three kinds of rotation, both cache dtypes.
#include <limits>

#include "tests/kernels/attention_case.hpp"

namespace kvbench::test {
namespace {

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

TEST_CASE("attention: one added to the denominators, over tiles, splits and sinks") {
  for (const std::int64_t n_tokens : {1, 19}) {
    AttentionCase c;
    c.n_tokens = n_tokens;
    c.n_heads = 3;
    c.past = {500};
    c.off_by_one = true;
    c.weights = Weights::summed;
    check_attention_case(c);
    c.weights = Weights::none;
    c.sinks = 2;
    c.recent = 9;
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
