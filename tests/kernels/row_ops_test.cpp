// Operations on rows, CPU against CUDA: embedding, norms, activations, picked and
// added rows. Widths below, at
// and above a block's threads; padded rows; all dtypes.
#include <utility>

#include "tests/kernels/parity.hpp"

namespace kvbench::test {
namespace {

TensorView view_of(const std::vector<std::uint16_t>& bits, DType dtype, const Shape& shape) {
  return {reinterpret_cast<const std::byte*>(bits.data()), dtype, shape};
}

TensorView view_of(const std::vector<float>& values, const Shape& shape) {
  return {reinterpret_cast<const std::byte*>(values.data()), DType::f32, shape};
}

TEST_CASE("embed: rows of tables of every float dtype") {
  const std::vector<std::int32_t> ids = {6, 0, 3, 3, 5};
  for (const std::int64_t width : {1, 7, 256, 300}) {
    const std::vector<float> values = random_values(7 * width, 1);
    std::vector<std::uint16_t> half(values.size());
    std::transform(values.begin(), values.end(), half.begin(), float_to_f16);
    const std::vector<std::uint16_t> bf16 = to_bf16(values);
    for (const TensorView& rows :
         {view_of(values, {7, width}), view_of(half, DType::f16, {7, width}),
          view_of(bf16, DType::bf16, {7, width})}) {
      check_parity(0.0, [&](Backend& backend) {
        const auto table = backend.make_table(rows);
        const std::size_t n = ids.size() * static_cast<std::size_t>(width);
        Buffer out = backend.allocate(n * sizeof(float), nullptr);
        backend.embed(*table, ids, out.as<float>());
        return download(backend, out.as<void>(), n);
      });
    }
  }
}

TEST_CASE("norm: ragged widths, padded rows, both output dtypes") {
  for (const std::int64_t width : {1, 31, 64, 257, 576}) {
    for (const std::int64_t padding : {0, 5}) {
      for (const DType out_dtype : {DType::f32, DType::bf16}) {
        constexpr std::int64_t kRows = 3;
        const std::vector<float> x = random_values(kRows * (width + padding), 2, 3.0f);
        const std::vector<float> weight = random_values(width, 3);
        const std::vector<float> before(x.size(), 0.5f);
        check_parity(tolerance_of(out_dtype), [&](Backend& backend) {
          const Buffer x_buffer = upload(backend, x);
          const Buffer weight_buffer = upload(backend, weight);
          Buffer out = upload_as(backend, before, out_dtype);
          backend.norm({.x = x_buffer.as<float>(),
                        .out = out.as<void>(),
                        .weight = weight_buffer.as<float>(),
                        .n_rows = kRows,
                        .width = width,
                        .x_stride = width + padding,
                        .out_stride = width + padding,
                        .epsilon = 1e-5,
                        .kind = NormKind::rms,
                        .out_dtype = out_dtype,
                        .bias = nullptr,
                        .accumulate = false});
          return download(backend, out.as<void>(), x.size(), out_dtype);
        });
      }
    }
  }
}

TEST_CASE("gated activation: every activation, both output dtypes") {
  for (const Activation activation : {Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
    for (const std::int64_t width : {1, 24, 513}) {
      for (const auto& [out_dtype, gated] :
           {std::pair(DType::f32, true), {DType::bf16, true}, {DType::f32, false}}) {
        constexpr std::int64_t kRows = 3;
        const std::vector<float> gate_up = random_values(kRows * 2 * width, 4, 2.0f);
        check_parity(tolerance_of(out_dtype), [&](Backend& backend) {
          const Buffer in = upload(backend, gate_up);
          const auto n = static_cast<std::size_t>(kRows * width);
          Buffer out = backend.allocate(n * sizeof(float), nullptr);
          backend.gated_activation({.gate_up = in.as<float>(),
                                    .out = out.as<void>(),
                                    .n_rows = kRows,
                                    .width = width,
                                    .activation = activation,
                                    .out_dtype = out_dtype,
                                    .gated = gated});
          return download(backend, out.as<void>(), n, out_dtype);
        });
      }
    }
  }
}

TEST_CASE("gated activation: gates so far out that exp overflows") {
  const std::vector<float> gate_up = {-200.0f, -30.0f, 20.0f, 200.0f, 2.0f, 2.0f, 2.0f, 2.0f};
  for (const Activation activation : {Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
    for_each_thread_order([&] {
      CudaBackend backend(1);
      const Buffer in = upload(backend, gate_up);
      Buffer out = backend.allocate(4 * sizeof(float), nullptr);
      backend.gated_activation({.gate_up = in.as<float>(),
                                .out = out.as<void>(),
                                .n_rows = 1,
                                .width = 4,
                                .activation = activation,
                                .out_dtype = DType::f32});
      check_close(download(backend, out.as<void>(), 4), {0.0f, 0.0f, 40.0f, 400.0f}, 1e-6);
    });
  }
}

TEST_CASE("norm: layer norm with and without bias, no norm, and results added to the output") {
  for (const NormKind kind : {NormKind::rms, NormKind::layer, NormKind::none}) {
    for (const bool bias : {false, true}) {
      for (const bool accumulate : {false, true}) {
        constexpr std::int64_t kRows = 3;
        constexpr std::int64_t kWidth = 300;
        const std::vector<float> x = random_values(kRows * kWidth, 2, 3.0f);
        const std::vector<float> weight = random_values(kWidth, 3);
        check_parity(kF32Tolerance, [&](Backend& backend) {
          const Buffer x_buffer = upload(backend, x);
          const Buffer weight_buffer = upload(backend, weight);
          const Buffer bias_buffer = upload(backend, random_values(kWidth, 4));
          Buffer out = upload(backend, random_values(kRows * kWidth, 5));
          backend.norm({.x = x_buffer.as<float>(),
                        .out = out.as<void>(),
                        .weight = weight_buffer.as<float>(),
                        .n_rows = kRows,
                        .width = kWidth,
                        .x_stride = kWidth,
                        .out_stride = kWidth,
                        .epsilon = 1e-5,
                        .kind = kind,
                        .out_dtype = DType::f32,
                        .bias = bias && kind == NormKind::layer ? bias_buffer.as<float>() : nullptr,
                        .accumulate = accumulate});
          return download(backend, out.as<void>(), x.size());
        });
      }
    }
  }
}

TEST_CASE("gather_rows and add_rows: rows in any order, repeated rows too") {
  constexpr std::int64_t kWidth = 270;
  for (const std::vector<std::int32_t>& rows :
       {std::vector<std::int32_t>{4, 0, 3}, std::vector<std::int32_t>{2, 2, 0, 2, 4}}) {
    const auto n = static_cast<std::int64_t>(rows.size());
    const std::vector<float> weights = random_values(n, 9);
    const std::vector<float> table = random_values(5 * kWidth, 10);
    check_parity(kF32Tolerance, [&](Backend& backend) {
      Buffer y = upload(backend, table);
      Buffer picked =
          backend.allocate(static_cast<std::size_t>(n * kWidth) * sizeof(float), nullptr);
      backend.gather_rows({.x = y.as<void>(),
                           .out = picked.as<void>(),
                           .rows = rows.data(),
                           .n_rows = n,
                           .row_bytes = kWidth * sizeof(float)});
      backend.scale(picked.as<float>(), n * kWidth, 1.5f);
      backend.add_rows({.x = picked.as<float>(),
                        .y = y.as<float>(),
                        .rows = rows.data(),
                        .weights = weights.data(),
                        .n_rows = n,
                        .width = kWidth});
      return download(backend, y.as<void>(), table.size());
    });
  }
}

}  // namespace
}  // namespace kvbench::test
