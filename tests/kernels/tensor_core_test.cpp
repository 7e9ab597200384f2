// Attention over bf16 on tensor cores against the CPU backend, which computes in f32: every head
// size with a kernel of its own, ragged rows and keys, groups, lengths, visibility and rotation.
// Tolerance: queries, rotated keys and weights are rounded to bf16, and so is the output, each by
// at most 2^-9 of itself: 2^-7 in all.
#include <numeric>

#include "tests/kernels/attention_case.hpp"

namespace kvbench::test {
namespace {

AttentionCase bf16_case() {
  AttentionCase c;
  c.head_dim = 64;
  c.rotary_dim = 64;
  c.kv_dtype = DType::bf16;
  c.out_dtype = DType::bf16;
  return c;
}

void check_bf16_case(const AttentionCase& c) {
  check_parity(kBf16Tolerance, [&](Backend& backend) { return run_attention(backend, c); });
}

TEST_CASE("tensor cores: which calls go there") {
  AttentionParams params{};
  params.head_dim = 128;
  params.kv_bf16 = true;
  params.out_bf16 = true;
  CHECK(prefill_uses_tensor_cores(params));
  params.head_dim = 72;
  CHECK_FALSE(prefill_uses_tensor_cores(params));
  params.head_dim = 128;
  params.out_bf16 = false;
  CHECK_FALSE(prefill_uses_tensor_cores(params));
  params.out_bf16 = true;
  params.kv_bf16 = false;
  CHECK_FALSE(prefill_uses_tensor_cores(params));
  params.kv_bf16 = true;
  float log_sum_exp = 0.0f;
  params.log_sum_exp = &log_sum_exp;
  CHECK_FALSE(prefill_uses_tensor_cores(params));
}

TEST_CASE("tensor cores: every head size, whole and partial rotation") {
  for (const std::int64_t head_dim : {64, 80, 96, 128, 256}) {
    for (const std::int64_t rotary_dim : {head_dim, head_dim / 4, std::int64_t{0}}) {
      CAPTURE(head_dim);
      CAPTURE(rotary_dim);
      AttentionCase c = bf16_case();
      c.n_tokens = 41;
      c.head_dim = head_dim;
      c.rotary_dim = rotary_dim;
      c.past = {70};
      if (rotary_dim == 0) c.rotation = Rotation::none;
      check_bf16_case(c);
    }
  }
}

TEST_CASE("tensor cores: groups that are no powers of two, heads of different lengths") {
  for (const std::int64_t group : {1, 3, 5, 7}) {
    for (const std::int64_t n_tokens : {17, 40}) {
      CAPTURE(group);
      AttentionCase c = bf16_case();
      c.n_tokens = n_tokens;
      c.past = {83, 5, 0};
      c.n_heads = 3 * group;
      check_bf16_case(c);
    }
  }
}

TEST_CASE("tensor cores: lengths around the tiles' sizes") {
  for (const std::int64_t past : {0, 1, 23, 24, 47, 48, 49, 111, 112, 113}) {
    for (const std::int64_t n_tokens : {17, 64, 65}) {
      CAPTURE(past);
      AttentionCase c = bf16_case();
      c.n_tokens = n_tokens;
      c.n_heads = 1;
      c.past = {past};
      check_bf16_case(c);
    }
  }
}

TEST_CASE("tensor cores: sinks, recent entries and the model's window") {
  for (const std::int64_t sinks : {0, 4}) {
    for (const std::int64_t recent : {std::int64_t{0}, std::int64_t{9}, kUnlimited}) {
      for (const std::int64_t window : {std::int64_t{7}, std::int64_t{90}, kUnlimited}) {
        AttentionCase c = bf16_case();
        c.n_tokens = 70;
        c.n_heads = 4;
        c.past = {140, 25};
        c.gap = 11;
        c.sinks = sinks;
        c.recent = recent;
        c.window = window;
        check_bf16_case(c);
      }
    }
  }
}

TEST_CASE(
    "tensor cores: keys rotated by slot while they are read, sinks seen from a trimmed cache") {
  for (const std::int64_t head_dim : {64, 80, 256}) {
    for (const std::int64_t rotary_dim : {head_dim, std::int64_t{32}, std::int64_t{20}}) {
      for (const bool interleaved : {false, true}) {
        CAPTURE(head_dim);
        CAPTURE(rotary_dim);
        AttentionCase c = bf16_case();
        c.n_tokens = 24;
        c.n_heads = 6;
        c.head_dim = head_dim;
        c.past = {80, 80};
        c.gap = 17;
        c.sinks = 2;
        c.recent = 50;
        c.rotation = Rotation::by_slot;
        c.rotary_dim = rotary_dim;
        c.interleaved = interleaved;
        c.sink_slot_limit = 52;
        check_bf16_case(c);
      }
    }
  }
}

TEST_CASE("tensor cores: capped scores and ALiBi, by position and by slot") {
  AttentionCase c = bf16_case();
  c.n_tokens = 19;
  c.n_heads = 6;
  c.past = {70, 70};
  c.gap = 7;
  c.logit_cap = 0.7f;
  check_bf16_case(c);
  c.rotation = Rotation::none;
  c.alibi = true;
  check_bf16_case(c);
  c.sinks = 2;
  c.recent = 20;
  c.distance_by_slot = true;
  c.sink_slot_limit = 22;
  check_bf16_case(c);
}

TEST_CASE("tensor cores: a NaN in a key reaches the queries that see it, and no others") {
  for_each_thread_order([&] {
    CudaBackend backend(1);
    constexpr std::int64_t kTokens = 20, kDim = 64, kBad = 12;
    std::vector<float> keys = random_values(kTokens * kDim, 1);
    keys[kBad * kDim + 5] = std::numeric_limits<float>::quiet_NaN();
    const Buffer k = upload_as(backend, keys, DType::bf16);
    const Buffer v = upload_as(backend, random_values(kTokens * kDim, 2), DType::bf16);
    const Buffer q = upload(backend, random_values(kTokens * kDim, 3));
    Buffer out = backend.allocate(kTokens * kDim * sizeof(std::uint16_t), nullptr);
    std::vector<std::int32_t> positions(kTokens);
    std::iota(positions.begin(), positions.end(), 0);
    const KvHeadView view{k.as<void>(), v.as<void>(), positions.data(), kTokens};
    backend.attention({.q = q.as<float>(),
                       .q_stride = kDim,
                       .out = out.as<void>(),
                       .out_dtype = DType::bf16,
                       .n_tokens = kTokens,
                       .n_heads = 1,
                       .head_dim = kDim,
                       .scale = 0.125f,
                       .kv = {&view, 1},
                       .kv_dtype = DType::bf16,
                       .q_positions = positions.data()});
    const auto values = download(backend, out.as<void>(), kTokens * kDim, DType::bf16);
    for (std::int64_t token = 0; token < kTokens; ++token) {
      CAPTURE(token);
      CHECK(std::isnan(values[static_cast<std::size_t>(token * kDim)]) == (token >= kBad));
    }
  });
}

TEST_CASE("tensor cores: one added to the denominators") {
  for (const std::int64_t past : {0, 90}) {
    AttentionCase c = bf16_case();
    c.n_tokens = 21;
    c.past = {past};
    c.off_by_one = true;
    check_bf16_case(c);
  }
}

}  // namespace
}  // namespace kvbench::test
