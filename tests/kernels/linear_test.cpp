// Matrix products, CPU against CUDA: stacked parts, biases, accumulation, both compute dtypes.
#include "tests/kernels/parity.hpp"

namespace kvbench::test {
namespace {

struct LinearCase {
  std::int64_t n_rows;
  std::int64_t in;
  std::vector<std::int64_t> out;  // of the parts
  std::vector<bool> bias;         // of the parts
  bool accumulate;
  float clip = 0.0f;
};

TensorView view_of(const std::vector<float>& values, const Shape& shape) {
  return {reinterpret_cast<const std::byte*>(values.data()), DType::f32, shape};
}

void check_linear(const LinearCase& linear, DType compute) {
  std::vector<std::vector<float>> weights, biases;
  std::vector<TensorView> parts, bias_views;
  std::int64_t out = 0;
  for (std::size_t i = 0; i < linear.out.size(); ++i) {
    const auto seed = static_cast<unsigned>(10 + i);
    weights.push_back(random_values(linear.out[i] * linear.in, seed));
    biases.push_back(random_values(linear.out[i], seed + 10));
    out += linear.out[i];
  }
  for (std::size_t i = 0; i < linear.out.size(); ++i) {
    parts.push_back(view_of(weights[i], {linear.out[i], linear.in}));
    bias_views.push_back(linear.bias[i] ? view_of(biases[i], {linear.out[i]}) : TensorView{});
  }
  const std::vector<float> x = random_values(linear.n_rows * linear.in, 7);
  const std::vector<float> y = random_values(linear.n_rows * out, 8);
  // Both accumulate in f32 and round the inputs alike: only the order of additions differs.
  check_parity(5e-5, [&](Backend& backend) {
    const auto weight = backend.make_linear(parts, bias_views, compute);
    CHECK(weight->in_features() == linear.in);
    CHECK(weight->out_features() == out);
    const Buffer x_buffer = upload_as(backend, x, compute);
    Buffer y_buffer = upload(backend, y);
    backend.linear(*weight, {.x = x_buffer.as<void>(),
                             .y = y_buffer.as<float>(),
                             .n_rows = linear.n_rows,
                             .accumulate = linear.accumulate,
                             .clip = linear.clip});
    return download(backend, y_buffer.as<void>(), y.size());
  });
}

TEST_CASE("linear: stacked parts, with and without bias, overwriting and accumulating") {
  for (const bool accumulate : {false, true}) {
    check_linear({1, 8, {8}, {false}, accumulate}, DType::f32);
    check_linear({5, 33, {7, 1, 12}, {true, false, true}, accumulate}, DType::f32);
    check_linear({17, 64, {48, 16}, {false, false}, accumulate}, DType::f32);
    check_linear({3, 16, {20}, {true}, accumulate, 2.0f}, DType::f32);
  }
}

TEST_CASE("linear: bf16 weights and inputs, f32 results") {
  for (const bool accumulate : {false, true}) {
    check_linear({3, 32, {16, 16}, {true, true}, accumulate}, DType::bf16);
    check_linear({1, 40, {9}, {false}, accumulate}, DType::bf16);
  }
}

}  // namespace
}  // namespace kvbench::test
