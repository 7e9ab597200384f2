// CPU attention against plain loops in double, over the shapes that models and policies bring.
#include <doctest/doctest.h>

#include <string>

#include "backend/cpu/cpu_backend.hpp"
#include "tests/unit/backend/attention_case.hpp"

namespace kvbench {
namespace {

using test::AttentionCase;
using test::AttentionShape;

std::string describe(const AttentionShape& s) {
  return fmt::format(
      "head_dim {} group {} tokens {} stored {} ragged {} kv {} out {} rotary {}{}{}{} sinks {} "
      "recent {} window {} limit {} slots {} cap {} alibi {}",
      s.head_dim, s.group, s.n_tokens, s.stored, s.ragged, dtype_name(s.kv_dtype),
      dtype_name(s.out_dtype), s.rotary_dim, s.interleaved ? " interleaved" : "",
      s.by_slot ? " by slot" : "", s.gaps ? " gaps" : "", s.sinks, s.recent, s.window,
      s.sink_slot_limit, s.distance_by_slot, s.logit_cap, s.alibi);
}

void check(const AttentionShape& shape, int threads = 2) {
  CAPTURE(describe(shape));
  AttentionCase c(shape);
  CpuBackend backend(threads);
  backend.attention(c.args());
  const auto expected = c.expected();
  CHECK(test::largest_gap(c.output(), expected.output) < test::tolerance(shape.out_dtype, 1.7));
  CHECK(test::largest_gap(c.log_sum_exp(), expected.log_sum_exp) < 2e-5);
}

TEST_CASE("attention: head sizes, groups, dtypes, rotation on writing and on reading") {
  std::uint64_t seed = 100;
  for (const std::int64_t head_dim : {4, 8, 16, 64, 80, 96, 128, 256}) {
    for (const std::int64_t group : {1, 3, 4, 8}) {
      for (const DType kv_dtype : {DType::f32, DType::bf16}) {
        for (const bool by_slot : {false, true}) {
          check({.head_dim = head_dim,
                 .group = group,
                 .kv_dtype = kv_dtype,
                 .rotary_dim = head_dim,
                 .by_slot = by_slot,
                 .seed = ++seed});
        }
      }
    }
  }
}

TEST_CASE("attention: one added to the denominators") {
  std::uint64_t seed = 150;
  for (const std::int64_t n_tokens : {1, 5, 70}) {
    for (const std::int64_t stored : {0, 64, 130}) {
      check(
          {.group = 3, .n_tokens = n_tokens, .stored = stored, .off_by_one = true, .seed = ++seed});
      check(
          {.n_tokens = n_tokens, .stored = stored, .sinks = 4, .off_by_one = true, .seed = ++seed});
    }
  }
}

// Blocks have 64 keys and 128 query columns: lengths on both sides of their edges.
TEST_CASE("attention: numbers of tokens and of stored entries") {
  std::uint64_t seed = 200;
  for (const std::int64_t n_tokens : {1, 2, 7, 33, 42, 43, 128, 131}) {
    for (const std::int64_t stored : {0, 1, 62, 63, 64, 65, 127, 200}) {
      check({.group = 3, .n_tokens = n_tokens, .stored = stored, .seed = ++seed});
    }
  }
}

TEST_CASE("attention: sinks, recent entries and the model's own window") {
  std::uint64_t seed = 300;
  for (const std::int64_t sinks : {0, 1, 4}) {
    for (const std::int64_t recent :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{7}, std::int64_t{64}, kUnlimited}) {
      for (const std::int64_t window :
           {std::int64_t{1}, std::int64_t{5}, std::int64_t{64}, kUnlimited}) {
        for (const bool by_slot : {false, true}) {
          for (const bool gaps : {false, true}) {
            check({.group = 2,
                   .n_tokens = 40,
                   .stored = 90,
                   .by_slot = by_slot,
                   .gaps = gaps,
                   .sinks = sinks,
                   .recent = recent,
                   .window = window,
                   .sink_slot_limit = by_slot && sinks > 0 ? 95 : kUnlimited,
                   .seed = ++seed});
          }
        }
      }
    }
  }
}

TEST_CASE("attention: heads of different lengths, one query and many") {
  std::uint64_t seed = 400;
  for (const std::int64_t n_tokens : {1, 30}) {
    for (const std::int64_t ragged : {1, 30, 100}) {
      for (const DType kv_dtype : {DType::f32, DType::bf16}) {
        check({.group = 4,
               .n_kv_heads = 3,
               .n_tokens = n_tokens,
               .stored = 150,
               .ragged = ragged,
               .kv_dtype = kv_dtype,
               .gaps = true,
               .seed = ++seed});
      }
    }
  }
}

TEST_CASE("attention: one query over more entries than one part holds") {
  std::uint64_t seed = 450;
  for (const std::int64_t head_dim : {16, 64, 80, 256}) {
    for (const std::int64_t group : {1, 3, 5, 8}) {
      for (const std::int64_t stored : {0, 5, 511, 512, 1300}) {
        const bool odd = (++seed % 2) == 1;
        check({.head_dim = head_dim,
               .group = group,
               .n_tokens = 1,
               .stored = stored,
               .ragged = stored / 3,
               .kv_dtype = odd ? DType::bf16 : DType::f32,
               .gaps = stored > 0,
               .off_by_one = odd,
               .seed = seed});
        check({.head_dim = head_dim,
               .group = group,
               .n_tokens = 1,
               .stored = stored,
               .by_slot = true,
               .sinks = 4,
               .recent = odd ? kUnlimited : 600,
               .logit_cap = odd ? 5.0f : 0.0f,
               .seed = seed});
      }
    }
  }
}

TEST_CASE("attention: interleaved pairs, part of a head rotated, none rotated") {
  std::uint64_t seed = 500;
  for (const std::int64_t rotary_dim : {0, 4, 8, 16}) {
    for (const bool interleaved : {false, true}) {
      for (const bool by_slot : {false, true}) {
        if (by_slot && rotary_dim == 0) continue;
        check({.rotary_dim = rotary_dim,
               .interleaved = interleaved,
               .by_slot = by_slot,
               .seed = ++seed});
      }
    }
  }
}

TEST_CASE("attention: soft caps and ALiBi, distances in positions and in slots") {
  std::uint64_t seed = 700;
  for (const float logit_cap : {0.0f, 0.7f, 50.0f}) {
    for (const bool alibi : {false, true}) {
      for (const bool by_slot : {false, true}) {
        for (const std::int64_t sinks : {0, 3}) {
          for (const std::int64_t window : {std::int64_t{9}, kUnlimited}) {
            check({.group = 3,
                   .n_tokens = 30,
                   .stored = 80,
                   .rotary_dim = 0,
                   .gaps = true,
                   .sinks = sinks,
                   .recent = 40,
                   .window = window,
                   .distance_by_slot = by_slot,
                   .logit_cap = logit_cap,
                   .alibi = alibi,
                   .sink_slot_limit = by_slot && sinks > 0 ? 90 : kUnlimited,
                   .seed = ++seed});
          }
        }
      }
    }
  }
}

TEST_CASE("attention: output in bf16 is the f32 one, rounded") {
  for (const std::int64_t head_dim : {8, 80}) {
    AttentionShape shape{.head_dim = head_dim, .group = 3, .n_tokens = 9, .rotary_dim = head_dim};
    CpuBackend backend(1);
    AttentionCase wide(shape);
    backend.attention(wide.args());
    shape.out_dtype = DType::bf16;
    AttentionCase narrow(shape);
    backend.attention(narrow.args());
    CHECK(narrow.output() == test::rounded(wide.output(), DType::bf16));
  }
}

// Queries and weights are rounded too, where the processor multiplies bf16: the reference is of the
// values as they are stored.
TEST_CASE("attention: everything in bf16") {
  std::uint64_t seed = 700;
  for (const std::int64_t head_dim : {8, 64, 80, 128}) {
    for (const std::int64_t n_tokens : {2, 7, 43, 131}) {
      for (const std::int64_t stored : {0, 1, 64, 200}) {
        for (const bool by_slot : {false, true}) {
          AttentionShape shape{.head_dim = head_dim,
                               .group = 3,
                               .n_tokens = n_tokens,
                               .stored = stored,
                               .kv_dtype = DType::bf16,
                               .out_dtype = DType::bf16,
                               .rotary_dim = head_dim,
                               .by_slot = by_slot,
                               .seed = ++seed};
          if (stored == 200) shape.sinks = 4;
          CAPTURE(seed);
          AttentionCase c(shape);
          CpuBackend backend(1);
          backend.attention(c.args());
          const auto expected = c.expected();
          CHECK(test::largest_gap(c.output(), expected.output) <
                2 * test::tolerance(DType::bf16, 1.7));
          CHECK(test::largest_gap(c.log_sum_exp(), expected.log_sum_exp) < 0x1p-6);
        }
      }
    }
  }
}

TEST_CASE("attention: the same bits for every number of threads") {
  const AttentionShape shape{
      .head_dim = 64, .group = 3, .n_kv_heads = 3, .n_tokens = 100, .stored = 300};
  CpuBackend one(1);
  AttentionCase reference(shape);
  one.attention(reference.args());
  for (const int threads : {2, 3, 4}) {
    CpuBackend backend(threads);
    AttentionCase c(shape);
    backend.attention(c.args());
    CHECK(c.output() == reference.output());
  }
}

// One key outweighs all others by far, in either direction: no overflow, no lost weight.
TEST_CASE("attention: scores of very different sizes") {
  AttentionCase c({.head_dim = 4, .n_kv_heads = 1, .n_tokens = 3, .stored = 130, .rotary_dim = 0});
  AttentionArgs args = c.args();
  args.scale = 1e4f;
  CpuBackend backend(1);
  backend.attention(args);
  for (const float value : c.output()) CHECK(std::isfinite(value));
}

TEST_CASE("attention: a query that is not a number has no number for a result") {
  AttentionCase c({.n_kv_heads = 1, .n_tokens = 3, .stored = 130});
  AttentionArgs args = c.args();
  std::vector<float> q(args.q, args.q + 3 * args.q_stride);
  q[static_cast<std::size_t>(args.q_stride) + 3] = NAN;
  args.q = q.data();
  CpuBackend backend(1);
  backend.attention(args);
  const auto output = c.output();
  for (std::size_t i = 0; i < output.size(); ++i) {
    CHECK(std::isnan(output[i]) == (i / 16 == 1));
  }
}

TEST_CASE("attention: one query that is not a number has no number for a result") {
  AttentionCase c({.n_kv_heads = 1, .n_tokens = 1, .stored = 700});
  AttentionArgs args = c.args();
  std::vector<float> q(args.q, args.q + args.q_stride);
  q[3] = NAN;
  args.q = q.data();
  CpuBackend backend(1);
  backend.attention(args);
  for (const float value : c.output()) CHECK(std::isnan(value));
}

void check_weights(const AttentionShape& shape, bool sum_tokens) {
  CAPTURE(describe(shape));
  CAPTURE(sum_tokens);
  AttentionCase c(shape);
  CpuBackend backend(2);
  const AttentionArgs attention = c.args();
  backend.attention(attention);
  const std::int64_t stride = c.longest() + 5;
  const std::int64_t rows = c.n_heads() * (sum_tokens ? 1 : shape.n_tokens);
  std::vector<float> weights(static_cast<std::size_t>(rows * stride), -1.0f);
  AttentionWeightsArgs args{};
  args.attention = attention;
  args.attention.out = nullptr;
  args.log_sum_exp = c.log_sum_exp().data();
  args.weights = weights.data();
  args.row_stride = stride;
  args.sum_tokens = sum_tokens;
  backend.attention_weights(args);

  const auto expected = c.expected().weights;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto first = static_cast<std::size_t>(sum_tokens ? row * shape.n_tokens : row);
    std::vector<double> wanted = expected[first];
    for (std::int64_t t = 1; sum_tokens && t < shape.n_tokens; ++t) {
      const auto& more = expected[first + static_cast<std::size_t>(t)];
      for (std::size_t slot = 0; slot < wanted.size(); ++slot) wanted[slot] += more[slot];
    }
    const auto* found = weights.data() + row * stride;
    const auto n = static_cast<std::ptrdiff_t>(wanted.size());
    CHECK(test::largest_gap(std::vector<float>(found, found + n), wanted) < 2e-5);
    CHECK(std::all_of(found + n, found + stride, [](float w) { return w == -1.0f; }));
  }
}

TEST_CASE("attention weights: rows and their sum over the tokens") {
  std::uint64_t seed = 600;
  for (const bool sum_tokens : {false, true}) {
    for (const std::int64_t group : {1, 3, 4, 8}) {
      for (const std::int64_t n_tokens : {1, 5, 33, 50}) {
        for (const std::int64_t stored : {0, 60, 64, 150}) {
          check_weights({.group = group,
                         .n_tokens = n_tokens,
                         .stored = stored,
                         .ragged = 20,
                         .kv_dtype = group == 4 ? DType::bf16 : DType::f32,
                         .gaps = true,
                         .seed = ++seed},
                        sum_tokens);
        }
      }
    }
    check_weights({.group = 3, .n_tokens = 1, .stored = 1300, .ragged = 400, .seed = 9},
                  sum_tokens);
    check_weights({.n_tokens = 1, .window = 40, .seed = 10}, sum_tokens);
    check_weights({.n_tokens = 20, .by_slot = true, .recent = 9, .seed = 1}, sum_tokens);
    check_weights({.n_tokens = 20, .window = 6, .seed = 2}, sum_tokens);
    check_weights({.group = 3, .n_tokens = 20, .logit_cap = 0.7f, .alibi = true, .seed = 3},
                  sum_tokens);
  }
}

}  // namespace
}  // namespace kvbench
