// Matrix products, embedding and loss on the CPU backend against plain double loops.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "core/error.hpp"
#include "tests/unit/backend/instruction_sets.hpp"
#include "tests/unit/backend/random_values.hpp"

namespace kvbench {
namespace {

using test::random_floats;

TensorView view_of(const std::vector<float>& values, Shape shape) {
  return {reinterpret_cast<const std::byte*>(values.data()), DType::f32, std::move(shape)};
}

// A weight made of two stacked parts, the second with a bias, and the same as one dense matrix.
struct Stacked {
  std::vector<float> top, bottom, bias;
  std::vector<float> matrix;  // [out, in] as the product sees it
  std::unique_ptr<LinearWeight> weight;
};

Stacked make_stacked(Backend& backend, Rng& rng, std::int64_t out, std::int64_t in, bool biased,
                     DType compute) {
  Stacked s;
  const std::int64_t top = out / 3;
  s.top = random_floats(rng, top * in);
  s.bottom = random_floats(rng, (out - top) * in);
  s.bias = random_floats(rng, out - top);
  std::vector<TensorView> parts;
  std::vector<TensorView> biases;
  if (top > 0) {
    parts.push_back(view_of(s.top, {top, in}));
    biases.emplace_back();
  }
  parts.push_back(view_of(s.bottom, {out - top, in}));
  biases.push_back(view_of(s.bias, {out - top}));
  if (!biased) biases.clear();
  s.matrix = s.top;
  s.matrix.insert(s.matrix.end(), s.bottom.begin(), s.bottom.end());
  s.matrix = test::rounded(s.matrix, compute);
  s.bias.insert(s.bias.begin(), static_cast<std::size_t>(top), 0.0f);
  if (!biased) s.bias.assign(s.bias.size(), 0.0f);
  // The biases' view moved with the insertion: make the weight from a copy that stays.
  const std::vector<float> bottom_bias(s.bias.begin() + static_cast<std::ptrdiff_t>(top),
                                       s.bias.end());
  if (biased) biases.back() = view_of(bottom_bias, {out - top});
  s.weight = backend.make_linear(parts, biases, compute);
  return s;
}

void check_product(std::int64_t n_rows, std::int64_t out, std::int64_t in, bool biased,
                   bool accumulate, DType compute) {
  CAPTURE(n_rows);
  CAPTURE(out);
  CAPTURE(in);
  CAPTURE(biased);
  CAPTURE(accumulate);
  CAPTURE(dtype_name(compute));
  CpuBackend backend(1);
  Rng rng(static_cast<std::uint64_t>(n_rows * 1000 + out * 10 + in));
  const Stacked s = make_stacked(backend, rng, out, in, biased, compute);
  CHECK(s.weight->in_features() == in);
  CHECK(s.weight->out_features() == out);
  const auto x = test::rounded(random_floats(rng, n_rows * in), compute);
  const auto x_bf16 = test::to_bf16(x);
  auto y = random_floats(rng, n_rows * out);
  std::vector<double> expected(y.begin(), y.end());
  for (std::int64_t r = 0; r < n_rows; ++r) {
    for (std::int64_t o = 0; o < out; ++o) {
      double& sum = expected[static_cast<std::size_t>(r * out + o)];
      sum = (accumulate ? sum : 0.0) + s.bias[static_cast<std::size_t>(o)];
      for (std::int64_t i = 0; i < in; ++i) {
        sum += static_cast<double>(x[static_cast<std::size_t>(r * in + i)]) *
               s.matrix[static_cast<std::size_t>(o * in + i)];
      }
    }
  }
  backend.linear(*s.weight, {.x = compute == DType::bf16 ? static_cast<const void*>(x_bf16.data())
                                                         : static_cast<const void*>(x.data()),
                             .y = y.data(),
                             .n_rows = n_rows,
                             .accumulate = accumulate});
  // Both sides hold the same rounded inputs: what differs is the order of the f32 sum.
  CHECK(test::largest_gap(y, expected) < 1e-5 * std::sqrt(static_cast<double>(in)) + 1e-5);
}

TEST_CASE("linear: odd sizes, bias, accumulation, f32 and bf16") {
  for (const DType compute : {DType::f32, DType::bf16}) {
    for (const std::int64_t n_rows : {1, 2, 7, 33}) {
      for (const std::int64_t out : {1, 2, 16, 17, 96}) {
        for (const std::int64_t in : {1, 3, 16, 31, 130}) {
          for (const bool biased : {false, true}) {
            check_product(n_rows, out, in, biased, (out + in) % 2 == 0, compute);
          }
        }
      }
    }
    check_product(5, 24, 40, true, true, compute);
    check_product(5, 24, 40, true, false, compute);
  }
}

TEST_CASE("linear: one row, under every instruction set") {
  test::under_every_instruction_set([] {
    for (const DType compute : {DType::f32, DType::bf16}) {
      for (const std::int64_t out : {15, 32, 48, 63, 64, 80, 129, 208}) {
        check_product(1, out, 33, true, out % 2 == 0, compute);
      }
    }
  });
}

TEST_CASE("linear: one row does not depend on the number of threads") {
  Rng rng(11);
  for (const DType compute : {DType::f32, DType::bf16}) {
    CpuBackend one(1);
    const Stacked s = make_stacked(one, rng, 200, 70, true, compute);
    const auto x = random_floats(rng, 70);
    const auto x_bf16 = test::to_bf16(x);
    const void* row = compute == DType::bf16 ? static_cast<const void*>(x_bf16.data())
                                             : static_cast<const void*>(x.data());
    std::vector<float> expected(200);
    one.linear(*s.weight, {.x = row, .y = expected.data(), .n_rows = 1, .accumulate = false});
    for (const int threads : {2, 3, 20}) {
      CpuBackend many(threads);
      std::vector<float> y(200);
      many.linear(*s.weight, {.x = row, .y = y.data(), .n_rows = 1, .accumulate = false});
      CHECK(y == expected);
    }
  }
}

TEST_CASE("linear: one weight serves many numbers of rows in any order") {
  CpuBackend backend(1);
  Rng rng(9);
  const Stacked s = make_stacked(backend, rng, 12, 10, true, DType::f32);
  const auto x = random_floats(rng, 40 * 10);
  std::vector<float> all(40 * 12);
  backend.linear(*s.weight, {.x = x.data(), .y = all.data(), .n_rows = 40, .accumulate = false});
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t n_rows = 1; n_rows <= 40; ++n_rows) {
      std::vector<float> some(static_cast<std::size_t>(n_rows * 12));
      backend.linear(*s.weight,
                     {.x = x.data(), .y = some.data(), .n_rows = n_rows, .accumulate = false});
      const std::vector<float> expected(all.begin(), all.begin() + n_rows * 12);
      REQUIRE(test::largest_gap(some, expected) < 1e-5);
    }
  }
}

TEST_CASE("linear: the finished sum is clipped, not its parts") {
  CpuBackend backend(1);
  Rng rng(12);
  const Stacked s = make_stacked(backend, rng, 30, 20, true, DType::f32);
  const auto x = random_floats(rng, 3 * 20);
  const auto residual = random_floats(rng, 3 * 30, 4.0);
  for (const bool accumulate : {false, true}) {
    auto free = residual;
    auto clipped = residual;
    backend.linear(*s.weight,
                   {.x = x.data(), .y = free.data(), .n_rows = 3, .accumulate = accumulate});
    backend.linear(
        *s.weight,
        {.x = x.data(), .y = clipped.data(), .n_rows = 3, .accumulate = accumulate, .clip = 2.5f});
    bool any = false;
    for (std::size_t i = 0; i < free.size(); ++i) {
      any = any || std::abs(free[i]) > 2.5f;
      CHECK(clipped[i] == std::clamp(free[i], -2.5f, 2.5f));
    }
    CHECK(any);
  }
}

TEST_CASE("embedding rows of f32, bf16 and f16 tables") {
  CpuBackend backend(1);
  Rng rng(10);
  const auto values = random_floats(rng, 6 * 5);
  std::vector<std::uint16_t> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), float_to_f16);
  const auto bf16 = test::to_bf16(values);
  const std::vector<std::int32_t> ids = {5, 0, 5, 3};
  const TensorView tables[] = {
      view_of(values, {6, 5}),
      {reinterpret_cast<const std::byte*>(bf16.data()), DType::bf16, {6, 5}},
      {reinterpret_cast<const std::byte*>(halves.data()), DType::f16, {6, 5}}};
  for (const TensorView& table : tables) {
    CAPTURE(dtype_name(table.dtype));
    std::vector<float> out(4 * 5, NAN);
    backend.embed(*backend.make_table(table), ids, out.data());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t from = static_cast<std::size_t>(ids[i / 5]) * 5 + i % 5;
      const float expected = table.dtype == DType::f32    ? values[from]
                             : table.dtype == DType::bf16 ? bf16_to_float(bf16[from])
                                                          : f16_to_float(halves[from]);
      CHECK(out[i] == expected);
    }
  }
}

// A vocabulary head in three blocks of rows, its targets in each of them.
void check_nll(std::int64_t n_rows, double size, double logit_scale, double logit_cap,
               int threads) {
  CAPTURE(n_rows);
  CAPTURE(size);
  CAPTURE(logit_scale);
  CAPTURE(logit_cap);
  constexpr std::int64_t kIn = 8;
  const std::vector<std::int64_t> blocks = {33, 1, 70};
  CpuBackend backend(threads);
  Rng rng(11);
  std::vector<std::vector<float>> parts;
  std::vector<std::unique_ptr<LinearWeight>> weights;
  std::vector<const LinearWeight*> vocabulary;
  for (const std::int64_t rows : blocks) {
    parts.push_back(random_floats(rng, rows * kIn, size));
    const TensorView view = view_of(parts.back(), {rows, kIn});
    weights.push_back(backend.make_linear({&view, 1}, {}, DType::f32));
    vocabulary.push_back(weights.back().get());
  }
  const auto hidden = random_floats(rng, n_rows * kIn);
  std::vector<std::int32_t> targets;
  for (std::int64_t r = 0; r < n_rows; ++r) {
    const std::int32_t edges[] = {0, 32, 33, 34, 103};  // first and last of each block
    targets.push_back(r < 5 ? edges[r] : static_cast<std::int32_t>(rng.below(104)));
  }
  std::vector<double> nll(static_cast<std::size_t>(n_rows), NAN);
  NllArgs args{};
  args.hidden = hidden.data();
  args.vocabulary = vocabulary;
  args.targets = targets.data();
  args.nll = nll.data();
  args.n_rows = n_rows;
  args.logit_scale = logit_scale;
  args.logit_cap = logit_cap;
  backend.nll(args);
  for (std::int64_t r = 0; r < n_rows; ++r) {
    std::vector<double> logits;
    for (const auto& part : parts) {
      for (std::size_t o = 0; o < part.size() / kIn; ++o) {
        double sum = 0.0;
        for (std::size_t i = 0; i < kIn; ++i) {
          sum += static_cast<double>(hidden[static_cast<std::size_t>(r) * kIn + i]) *
                 part[o * kIn + i];
        }
        sum *= logit_scale;
        logits.push_back(logit_cap > 0.0 ? logit_cap * std::tanh(sum / logit_cap) : sum);
      }
    }
    const double maximum = *std::max_element(logits.begin(), logits.end());
    double sum = 0.0;
    for (const double logit : logits) sum += std::exp(logit - maximum);
    const double expected = maximum + std::log(sum) -
                            logits[static_cast<std::size_t>(targets[static_cast<std::size_t>(r)])];
    // f32 logits carry a relative error; the log-softmax itself adds next to none.
    CHECK(std::abs(nll[static_cast<std::size_t>(r)] - expected) < 2e-6 * (1.0 + size * 10.0));
  }
}

TEST_CASE("nll: a double log-softmax over all blocks of the vocabulary") {
  for (const std::int64_t n_rows : {1, 2, 7, 255, 256, 257, 600})
    check_nll(n_rows, 1.0, 1.0, 0.0, 1);
  check_nll(40, 1.0, 0.0625, 0.0, 2);
  check_nll(40, 1.0, 1.0, 3.0, 2);
  check_nll(40, 1.0, 0.5, 2.0, 1);
  check_nll(40, 300.0, 1.0, 0.0, 1);
}

}  // namespace
}  // namespace kvbench
