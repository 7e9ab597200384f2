// The norm kernel (root mean square) against a double-precision norm on the host: f32 and bf16
// output, widths below a block's threads, no multiple of them, and of real models; padded rows; in
// place.
#include "kernels/norm.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "core/error.hpp"
#include "tests/kernels/device_array.hpp"

namespace kvbench {
namespace {

constexpr float kEpsilon = 1e-5f;
constexpr float kUntouched = -7.0f;

struct NormCase {
  std::int64_t n_rows;
  std::int64_t width;
  std::int64_t padding;  // elements between rows, which must stay as they are
  std::vector<float> x;  // [n_rows, width + padding]
  std::vector<float> weight;

  NormCase(std::int64_t rows, std::int64_t columns, std::int64_t gap)
      : n_rows(rows), width(columns), padding(gap) {
    std::mt19937 generator(static_cast<unsigned>(rows * 1000 + columns));
    std::normal_distribution<float> normal(0.5f, 3.0f);
    x.assign(static_cast<std::size_t>(n_rows * stride()), kUntouched);
    for (std::int64_t row = 0; row < n_rows; ++row) {
      for (std::int64_t i = 0; i < width; ++i) x[index(row, i)] = normal(generator);
    }
    for (std::int64_t i = 0; i < width; ++i) weight.push_back(normal(generator));
  }

  std::int64_t stride() const { return width + padding; }
  std::size_t index(std::int64_t row, std::int64_t i) const {
    return static_cast<std::size_t>(row * stride() + i);
  }

  double expected(std::int64_t row, std::int64_t i) const {
    double squares = 0.0;
    for (std::int64_t j = 0; j < width; ++j) squares += std::pow(double{x[index(row, j)]}, 2);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + kEpsilon);
    return x[index(row, i)] * scale * weight[static_cast<std::size_t>(i)];
  }
};

template <class Out>
void check_norm(const NormCase& norm_case, double relative_tolerance) {
  test::DeviceArray<float> x(norm_case.x);
  test::DeviceArray<float> weight(norm_case.weight);
  test::DeviceArray<Out> out(std::vector<Out>(norm_case.x.size(), Out(kUntouched)));
  norm_rows<Out>({.x = x.data(),
                  .out = out.data(),
                  .weight = weight.data(),
                  .bias = nullptr,
                  .n_rows = norm_case.n_rows,
                  .width = norm_case.width,
                  .x_stride = norm_case.stride(),
                  .out_stride = norm_case.stride(),
                  .epsilon = kEpsilon,
                  .kind = NormKind::rms,
                  .accumulate = false},
                 nullptr);
  const std::vector<Out> found = out.to_host();
  for (std::int64_t row = 0; row < norm_case.n_rows; ++row) {
    for (std::int64_t i = 0; i < norm_case.stride(); ++i) {
      const double value = static_cast<float>(found[norm_case.index(row, i)]);
      const double expected = i < norm_case.width ? norm_case.expected(row, i) : kUntouched;
      CAPTURE(row);
      CAPTURE(i);
      REQUIRE(std::abs(value - expected) <= relative_tolerance * std::abs(expected));
    }
  }
}

TEST_CASE("norm_rows equals the double-precision norm") {
  test::require_device();
  for (const std::int64_t width : {1, 31, 256, 576, 1000, 4096}) {
    for (const std::int64_t padding : {0, 8}) {
      const NormCase norm_case(5, width, padding);
      check_norm<float>(norm_case, 2e-6);
      check_norm<__nv_bfloat16>(norm_case, 1.0 / 256);
    }
  }
}

NormParams<float> float_params(float* x, const float* weight, std::int64_t n_rows,
                               std::int64_t width, std::int64_t x_stride) {
  return {.x = x,
          .out = x,
          .weight = weight,
          .bias = nullptr,
          .n_rows = n_rows,
          .width = width,
          .x_stride = x_stride,
          .out_stride = x_stride,
          .epsilon = kEpsilon,
          .kind = NormKind::rms,
          .accumulate = false};
}

TEST_CASE("norm_rows may overwrite its input") {
  test::require_device();
  const NormCase norm_case(3, 576, 0);
  test::DeviceArray<float> x(norm_case.x);
  test::DeviceArray<float> weight(norm_case.weight);
  norm_rows<float>(float_params(x.data(), weight.data(), 3, 576, 576), nullptr);
  const std::vector<float> found = x.to_host();
  for (std::int64_t i = 0; i < 576; ++i) {
    const double expected = norm_case.expected(2, i);
    REQUIRE(std::abs(found[norm_case.index(2, i)] - expected) <= 2e-6 * std::abs(expected));
  }
}

TEST_CASE("norm_rows refuses shapes outside its contract, with or without a device") {
  const auto run = [](std::int64_t n_rows, std::int64_t width, std::int64_t stride) {
    norm_rows<float>(float_params(nullptr, nullptr, n_rows, width, stride), nullptr);
  };
  CHECK_THROWS_AS(run(1, 0, 1), InternalError);
  CHECK_THROWS_AS(run(1, 8, 7), InternalError);
  CHECK_NOTHROW(run(0, 8, 8));
}

}  // namespace
}  // namespace kvbench
