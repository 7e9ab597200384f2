// Row-wise operations of the CPU backend against plain double loops: norm, gated activation,
// appending keys and values, moving rows.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "tests/unit/backend/random_values.hpp"

namespace kvbench {
namespace {

using test::random_floats;

struct NormCase {
  std::int64_t n_rows;
  std::int64_t width;
  NormKind kind;
  DType dtype;
  double epsilon;
  bool biased;
  bool accumulate;
};

double normed(const NormCase& c, const float* row, std::int64_t i, const std::vector<float>& weight,
              const std::vector<float>& bias) {
  const auto n = static_cast<double>(c.width);
  const double mean =
      c.kind == NormKind::layer ? std::accumulate(row, row + c.width, 0.0) / n : 0.0;
  double squares = 0.0;
  for (std::int64_t j = 0; j < c.width; ++j) squares += std::pow(row[j] - mean, 2.0);
  if (c.kind == NormKind::none) return row[i];
  const auto at = static_cast<std::size_t>(i);
  return (row[i] - mean) / std::sqrt(squares / n + c.epsilon) * weight[at] +
         (c.biased ? bias[at] : 0.0f);
}

void check_norm(const NormCase& c) {
  CAPTURE(c.width);
  CAPTURE(static_cast<int>(c.kind));
  Rng rng(1);
  const std::int64_t x_stride = c.width + 2;
  const std::int64_t out_stride = c.width + 5;
  const auto x = random_floats(rng, c.n_rows * x_stride);
  const auto weight = random_floats(rng, c.width);
  const auto bias = random_floats(rng, c.width);
  std::vector<float> out(static_cast<std::size_t>(c.n_rows * out_stride), 7.0f);
  std::vector<std::uint16_t> out_bf16 = test::to_bf16(out);
  std::vector<double> expected(out.begin(), out.end());
  for (std::int64_t r = 0; r < c.n_rows; ++r) {
    for (std::int64_t i = 0; i < c.width; ++i) {
      double& value = expected[static_cast<std::size_t>(r * out_stride + i)];
      value = (c.accumulate ? value : 0.0) + normed(c, x.data() + r * x_stride, i, weight, bias);
    }
  }
  NormArgs args{};
  args.x = x.data();
  args.out = c.dtype == DType::f32 ? static_cast<void*>(out.data()) : out_bf16.data();
  args.weight = weight.data();
  args.n_rows = c.n_rows;
  args.width = c.width;
  args.x_stride = x_stride;
  args.out_stride = out_stride;
  args.epsilon = c.epsilon;
  args.kind = c.kind;
  args.out_dtype = c.dtype;
  args.bias = c.biased ? bias.data() : nullptr;
  args.accumulate = c.accumulate;
  CpuBackend backend(2);
  backend.norm(args);
  const auto found = c.dtype == DType::f32 ? out : test::widen(out_bf16);
  CHECK(test::largest_gap(found, expected) < test::tolerance(c.dtype, 8.0));
}

TEST_CASE("norm: every kind, strides, widths, epsilon, f32 and bf16 results") {
  for (const NormKind kind : {NormKind::rms, NormKind::layer, NormKind::none}) {
    for (const std::int64_t width : {1, 4, 15, 64, 576, 1000}) {
      for (const std::int64_t n_rows : {1, 2, 9}) {
        for (const double epsilon : {1e-5, 0.5}) {
          const bool biased = kind == NormKind::layer && n_rows != 2;
          check_norm({n_rows, width, kind, DType::f32, epsilon, biased, false});
          check_norm({n_rows, width, kind, DType::bf16, epsilon, biased, false});
          if (kind != NormKind::none) {
            check_norm({n_rows, width, kind, DType::f32, epsilon, biased, true});
          }
        }
      }
    }
  }
}

// The mean is large beside the deviation: squares of x alone would lose all digits.
TEST_CASE("layer norm of values far from zero") {
  std::vector<float> x(64);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 4096.0f + (i % 2 == 0 ? 1.0f : -1.0f);
  const std::vector<float> weight(64, 1.0f);
  std::vector<float> out(64);
  NormArgs args{};
  args.x = x.data();
  args.out = out.data();
  args.weight = weight.data();
  args.n_rows = 1;
  args.width = 64;
  args.x_stride = 64;
  args.out_stride = 64;
  args.epsilon = 1e-5;
  args.kind = NormKind::layer;
  args.out_dtype = DType::f32;
  CpuBackend backend(1);
  backend.norm(args);
  for (std::size_t i = 0; i < out.size(); ++i) {
    CHECK(std::abs(out[i] - (i % 2 == 0 ? 1.0 : -1.0)) < 1e-3);
  }
}

TEST_CASE("norm: in place, inside rows of a wider matrix") {
  Rng rng(2);
  auto rows = random_floats(rng, 3 * 20);
  const auto before = rows;
  const std::vector<float> weight(8, 2.0f);
  CpuBackend backend(1);
  NormArgs args{};
  args.x = rows.data() + 4;
  args.out = rows.data() + 4;
  args.weight = weight.data();
  args.n_rows = 3;
  args.width = 8;
  args.x_stride = 20;
  args.out_stride = 20;
  args.epsilon = 1e-6;
  args.kind = NormKind::rms;
  args.out_dtype = DType::f32;
  backend.norm(args);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i % 20 < 4 || i % 20 >= 12) CHECK(rows[i] == before[i]);
  }
  for (std::size_t r = 0; r < 3; ++r) {
    const float* row = rows.data() + r * 20 + 4;
    CHECK(std::inner_product(row, row + 8, row, 0.0) == doctest::Approx(32.0).epsilon(1e-4));
  }
}

TEST_CASE("activation without a gate") {
  Rng rng(5);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto x = random_floats(rng, 4 * 17, 4.0);
    std::vector<float> out(x.size());
    std::vector<std::uint16_t> out_bf16(x.size());
    std::vector<double> expected;
    for (const float value : x) expected.push_back(value / (1.0 + std::exp(-value)));
    GatedActivationArgs args{};
    args.gate_up = x.data();
    args.out = dtype == DType::f32 ? static_cast<void*>(out.data()) : out_bf16.data();
    args.n_rows = 4;
    args.width = 17;
    args.activation = Activation::silu;
    args.out_dtype = dtype;
    args.gated = false;
    CpuBackend backend(2);
    backend.gated_activation(args);
    CHECK(test::largest_gap(dtype == DType::f32 ? out : test::widen(out_bf16), expected) <
          test::tolerance(dtype, 4.0));
  }
}

TEST_CASE("rows: gathered by index, added with weights, repeated ones summed; scaling") {
  CpuBackend backend(2);
  Rng rng(6);
  const auto x = random_floats(rng, 5 * 7);
  const std::vector<std::int32_t> from = {4, 0, 4, 2};
  std::vector<float> gathered(4 * 7);
  GatherRowsArgs gather{};
  gather.x = x.data();
  gather.out = gathered.data();
  gather.rows = from.data();
  gather.n_rows = 4;
  gather.row_bytes = 7 * sizeof(float);
  backend.gather_rows(gather);
  for (std::size_t i = 0; i < gathered.size(); ++i) {
    CHECK(gathered[i] == x[static_cast<std::size_t>(from[i / 7]) * 7 + i % 7]);
  }
  auto y = random_floats(rng, 5 * 7);
  std::vector<double> expected(y.begin(), y.end());
  const std::vector<float> weights = {0.5f, -2.0f, 1.0f, 0.25f};
  for (std::size_t i = 0; i < gathered.size(); ++i) {
    expected[static_cast<std::size_t>(from[i / 7]) * 7 + i % 7] +=
        static_cast<double>(weights[i / 7]) * gathered[i];
  }
  AddRowsArgs add{};
  add.x = gathered.data();
  add.y = y.data();
  add.rows = from.data();
  add.weights = weights.data();
  add.n_rows = 4;
  add.width = 7;
  backend.add_rows(add);
  CHECK(test::largest_gap(y, expected) < 1e-5);
  auto scaled = y;
  backend.scale(scaled.data(), 35, -0.5f);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(scaled[i] == y[i] * -0.5f);
}

TEST_CASE("gated activation: rows of gate and up side by side, f32 and bf16") {
  Rng rng(3);
  for (const std::int64_t width : {1, 24, 1536}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const auto gate_up = random_floats(rng, 5 * 2 * width, 4.0);
      std::vector<float> out(static_cast<std::size_t>(5 * width));
      std::vector<std::uint16_t> out_bf16(out.size());
      std::vector<double> expected;
      for (std::int64_t r = 0; r < 5; ++r) {
        for (std::int64_t i = 0; i < width; ++i) {
          const double g = gate_up[static_cast<std::size_t>(r * 2 * width + i)];
          expected.push_back(g / (1.0 + std::exp(-g)) *
                             gate_up[static_cast<std::size_t>((r * 2 + 1) * width + i)]);
        }
      }
      GatedActivationArgs args{};
      args.gate_up = gate_up.data();
      args.out = dtype == DType::f32 ? static_cast<void*>(out.data())
                                     : static_cast<void*>(out_bf16.data());
      args.n_rows = 5;
      args.width = width;
      args.activation = Activation::silu;
      args.out_dtype = dtype;
      CpuBackend backend(2);
      backend.gated_activation(args);
      const auto found = dtype == DType::f32 ? out : test::widen(out_bf16);
      CHECK(test::largest_gap(found, expected) < test::tolerance(dtype, 16.0));
    }
  }
}

struct AppendCase {
  std::int64_t n_tokens;
  std::int64_t head_dim;
  std::int64_t rotary_dim;  // 0: stored as they are
  bool interleaved;
  DType dtype;
};

void check_append(const AppendCase& c) {
  constexpr std::size_t kHeads = 3;
  Rng rng(4);
  const std::int64_t stride = static_cast<std::int64_t>(kHeads) * c.head_dim + 7;
  const auto k = random_floats(rng, c.n_tokens * stride);
  const auto v = random_floats(rng, c.n_tokens * stride);
  const std::int64_t half = c.rotary_dim / 2;
  std::vector<float> cosine, sine;
  for (std::int64_t i = 0; i < c.n_tokens * half; ++i) {
    cosine.push_back(static_cast<float>(std::cos(0.3 * static_cast<double>(i))));
    sine.push_back(static_cast<float>(std::sin(0.3 * static_cast<double>(i))));
  }
  const auto n = static_cast<std::size_t>(c.n_tokens * c.head_dim);
  std::vector<std::vector<float>> keys(kHeads, std::vector<float>(n)), values = keys;
  std::vector<std::vector<std::uint16_t>> keys16(kHeads, std::vector<std::uint16_t>(n)),
      values16 = keys16;
  std::vector<void*> k_rows, v_rows;
  for (std::size_t h = 0; h < kHeads; ++h) {
    const bool wide = c.dtype == DType::f32;
    k_rows.push_back(wide ? static_cast<void*>(keys[h].data()) : keys16[h].data());
    v_rows.push_back(wide ? static_cast<void*>(values[h].data()) : values16[h].data());
  }
  KvAppendArgs args{};
  args.k = k.data();
  args.v = v.data();
  args.stride = stride;
  args.n_tokens = c.n_tokens;
  args.head_dim = c.head_dim;
  args.k_rows = k_rows;
  args.v_rows = v_rows;
  args.kv_dtype = c.dtype;
  if (half > 0) args.rope = {cosine.data(), sine.data()};
  args.rope_shape = {c.rotary_dim, c.interleaved};
  CpuBackend backend(2);
  backend.kv_append(args);

  for (std::size_t h = 0; h < kHeads; ++h) {
    std::vector<double> wanted_k, wanted_v;
    for (std::int64_t t = 0; t < c.n_tokens; ++t) {
      const float* row = k.data() + t * stride + static_cast<std::int64_t>(h) * c.head_dim;
      std::vector<double> turned(row, row + c.head_dim);
      for (std::int64_t i = 0; i < half; ++i) {
        const std::int64_t low = c.interleaved ? 2 * i : i;
        const std::int64_t high = c.interleaved ? 2 * i + 1 : i + half;
        const double cos = cosine[static_cast<std::size_t>(t * half + i)];
        const double sin = sine[static_cast<std::size_t>(t * half + i)];
        turned[static_cast<std::size_t>(low)] = row[low] * cos - row[high] * sin;
        turned[static_cast<std::size_t>(high)] = row[high] * cos + row[low] * sin;
      }
      wanted_k.insert(wanted_k.end(), turned.begin(), turned.end());
      const float* value = v.data() + t * stride + static_cast<std::int64_t>(h) * c.head_dim;
      wanted_v.insert(wanted_v.end(), value, value + c.head_dim);
    }
    const bool wide = c.dtype == DType::f32;
    const double bound = test::tolerance(c.dtype, 2.5);
    CHECK(test::largest_gap(wide ? keys[h] : test::widen(keys16[h]), wanted_k) < bound);
    CHECK(test::largest_gap(wide ? values[h] : test::widen(values16[h]), wanted_v) < bound);
  }
}

TEST_CASE("kv_append: rotated or as they are, halves or interleaved, f32 and bf16") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t n_tokens : {1, 2, 9}) {
      for (const std::int64_t head_dim : {4, 16, 80}) {
        check_append({n_tokens, head_dim, 0, false, dtype});
        for (const bool interleaved : {false, true}) {
          check_append({n_tokens, head_dim, head_dim, interleaved, dtype});
          check_append({n_tokens, head_dim, head_dim / 2, interleaved, dtype});
        }
      }
    }
  }
}

TEST_CASE("move_rows: runs that overlap themselves, both directions, in the order given") {
  CpuBackend backend(1);
  const auto rows = [](std::size_t n) {
    std::vector<float> slab(n * 2);
    for (std::size_t i = 0; i < slab.size(); ++i) slab[i] = static_cast<float>(i / 2);
    return slab;
  };
  const auto firsts = [](const std::vector<float>& slab) {
    std::vector<int> ids;
    for (std::size_t i = 0; i < slab.size(); i += 2) ids.push_back(static_cast<int>(slab[i]));
    return ids;
  };
  auto slab = rows(8);
  const RowMove down[] = {{slab.data(), 1, 3, 5}};
  backend.move_rows(down, 2 * sizeof(float));
  CHECK(firsts(slab) == std::vector<int>{0, 3, 4, 5, 6, 7, 6, 7});
  slab = rows(8);
  const RowMove up[] = {{slab.data(), 2, 0, 6}};
  backend.move_rows(up, 2 * sizeof(float));
  CHECK(firsts(slab) == std::vector<int>{0, 1, 0, 1, 2, 3, 4, 5});
  // x a x b c becomes a b c.
  slab = rows(5);
  const RowMove defrag[] = {{slab.data(), 0, 1, 1}, {slab.data(), 1, 3, 2}};
  backend.move_rows(defrag, 2 * sizeof(float));
  CHECK(std::vector<float>(slab.begin(), slab.begin() + 6) == std::vector<float>{1, 1, 3, 3, 4, 4});
}

}  // namespace
}  // namespace kvbench
