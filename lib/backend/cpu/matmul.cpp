// oneDNN matmul behind PackedMatrix. Both interface generations differ only in how a
// primitive_desc is made, which `describe` hides.
#include "backend/cpu/matmul.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/tile_kernels.hpp"
#include "backend/cpu/vector_product.hpp"
#include "core/error.hpp"

namespace kvbench {
namespace {

using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

Type onednn_type(DType dtype) {
  return dtype == DType::bf16 ? Type::bf16 : Type::f32;
}

std::int64_t total_rows(std::span<const TensorView> parts) {
  std::int64_t rows = 0;
  for (const TensorView& part : parts) rows += part.shape.at(0);
  return rows;
}

// The layout is chosen for this many rows and then used for every row count: oneDNN's packed
// layouts depend on the matrix alone.
constexpr std::int64_t kLayoutRows = 256;

// More shapes than this are not kept: a caller that varies n_rows freely must not eat memory.
constexpr std::size_t kMaxProducts = 16;

// Writes rows [first, first + count) of `part` in the compute dtype to `out`, dense.
void convert_rows(const TensorView& part, std::int64_t first, std::int64_t count, DType compute,
                  std::vector<float>& scratch, std::byte* out) {
  const std::int64_t width = part.shape.at(1);
  const std::size_t n = static_cast<std::size_t>(count * width);
  if (part.dtype == compute) {
    std::memcpy(out, part.data + static_cast<std::size_t>(first * width) * dtype_size(compute),
                n * dtype_size(compute));
    return;
  }
  scratch.resize(n);
  to_floats(part, first * width, count * width, scratch.data());
  if (compute == DType::f32) {
    std::memcpy(out, scratch.data(), n * sizeof(float));
    return;
  }
  auto* bits = reinterpret_cast<std::uint16_t*>(out);
  for (std::size_t i = 0; i < n; ++i) bits[i] = float_to_bf16(scratch[i]);
}

}  // namespace

PackedMatrix::PackedMatrix(const dnnl::engine& engine, WeightArena& arena,
                           std::span<const TensorView> parts, std::span<const TensorView> biases,
                           DType compute)
    : engine_(engine),
      in_features_(parts.front().shape.at(1)),
      out_features_(total_rows(parts)),
      compute_(compute) {
  KVB_CHECK(compute == DType::f32 || compute == DType::bf16, "compute dtype {}",
            dtype_name(compute));
  bool has_bias = false;
  for (const TensorView& bias : biases) has_bias = has_bias || bias.data != nullptr;
  if (has_bias) {
    bias_ = dnnl::memory({{1, out_features_}, Type::f32, Tag::ab}, engine_);
    auto* values = static_cast<float*>(bias_.get_data_handle());
    std::memset(values, 0, static_cast<std::size_t>(out_features_) * sizeof(float));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::int64_t rows = parts[i].shape.at(0);
      if (biases[i].data != nullptr) to_floats(biases[i], 0, rows, values);
      values += rows;
    }
  }
  pack(arena, parts);
}

void PackedMatrix::pack(WeightArena& arena, std::span<const TensorView> parts) {
  const dnnl::memory::desc any({in_features_, out_features_}, onednn_type(compute_), Tag::any);
  const auto chosen = describe(kLayoutRows, false, any);
  storage_ = arena.allocate(chosen.weights_desc().get_size());
  packed_ = dnnl::memory(chosen.weights_desc(), engine_, storage_.get());

  const bool bf16 = compute_ == DType::bf16;
  const dnnl::memory::desc readable({in_features_, out_features_}, onednn_type(compute_),
                                    bf16 ? Tag::BA16a64b2a : Tag::BA16a64b);
  const std::int64_t inner_block = bf16 ? 32 : 16;
  if (packed_.get_desc() == readable) {
    padded_in_ = (in_features_ + inner_block - 1) / inner_block * inner_block;
  }

  // W is stored [out, in]; as the product's right side it is [in, out] with columns contiguous.
  const std::size_t element = dtype_size(compute_);
  std::vector<std::byte> dense(static_cast<std::size_t>(in_features_ * out_features_) * element);
  std::vector<float> scratch;
  std::byte* out = dense.data();
  for (const TensorView& part : parts) {
    KVB_CHECK(part.shape.size() == 2 && part.shape[1] == in_features_, "part is {}",
              to_string(part.shape));
    constexpr std::int64_t kRowsAtATime = 64;
    for (std::int64_t row = 0; row < part.shape[0]; row += kRowsAtATime) {
      const std::int64_t count = std::min(kRowsAtATime, part.shape[0] - row);
      convert_rows(part, row, count, compute_, scratch, out);
      out += static_cast<std::size_t>(count * in_features_) * element;
    }
  }
  dnnl::memory plain({{in_features_, out_features_}, onednn_type(compute_), Tag::ba}, engine_,
                     dense.data());
  dnnl::stream stream(engine_);
  dnnl::reorder(plain, packed_).execute(stream, plain, packed_);
  stream.wait();
}

dnnl::matmul::primitive_desc PackedMatrix::describe(std::int64_t n_rows, bool accumulate,
                                                    const dnnl::memory::desc& weights) const {
  const dnnl::memory::desc x({n_rows, in_features_}, onednn_type(compute_), Tag::ab);
  const dnnl::memory::desc y({n_rows, out_features_}, Type::f32, Tag::ab);
  dnnl::primitive_attr attributes;
  if (accumulate) {
    dnnl::post_ops add_to_y;
    add_to_y.append_sum(1.0f);
    attributes.set_post_ops(add_to_y);
  }
  const bool with_bias = static_cast<bool>(bias_);
  const dnnl::memory::desc bias =
      with_bias ? bias_.get_desc() : dnnl::memory::desc({1, out_features_}, Type::f32, Tag::ab);
  try {
#if DNNL_VERSION_MAJOR >= 3
    return with_bias ? dnnl::matmul::primitive_desc(engine_, x, weights, bias, y, attributes)
                     : dnnl::matmul::primitive_desc(engine_, x, weights, y, attributes);
#else
    return with_bias ? dnnl::matmul::primitive_desc({x, weights, bias, y}, attributes, engine_)
                     : dnnl::matmul::primitive_desc({x, weights, y}, attributes, engine_);
#endif
  } catch (const dnnl::error& error) {
    device_error("oneDNN has no {} product of {} x {} on this processor ({}); try --dtype f32",
                 dtype_name(compute_), in_features_, out_features_, error.what());
  }
}

PackedMatrix::Product& PackedMatrix::product(std::int64_t n_rows, bool accumulate) const {
  const Key key{n_rows, accumulate};
  const auto found = products_.find(key);
  if (found != products_.end()) return found->second;
  if (products_.size() >= kMaxProducts) products_.clear();
  const dnnl::memory::desc x({n_rows, in_features_}, onednn_type(compute_), Tag::ab);
  const dnnl::memory::desc y({n_rows, out_features_}, Type::f32, Tag::ab);
  Product product{.primitive = dnnl::matmul(describe(n_rows, accumulate, packed_.get_desc())),
                  .x = dnnl::memory(x, engine_, nullptr),
                  .y = dnnl::memory(y, engine_, nullptr)};
  return products_.emplace(key, std::move(product)).first->second;
}

// oneDNN cuts the columns into whole blocks, of which one thread then has more than another, and
// each call costs microseconds; with one row, both are felt.
void PackedMatrix::multiply_one_row(const LinearArgs& args, [[maybe_unused]] int threads,
                                    std::vector<float>& x_scratch) const {
  const float* x = static_cast<const float*>(args.x);
  if (compute_ == DType::bf16) {
    x_scratch.resize(std::max(x_scratch.size(), static_cast<std::size_t>(padded_in_)));
    tile::bf16_to_floats(static_cast<const std::uint16_t*>(args.x), in_features_, x_scratch.data());
    std::fill(x_scratch.begin() + in_features_, x_scratch.begin() + padded_in_, 0.0f);
    x = x_scratch.data();
  }
  const tile::VectorProduct product{
      .weights = packed_.get_data_handle(),
      .dtype = compute_,
      .in_features = in_features_,
      .padded_in = padded_in_,
      .out_features = out_features_,
      .x = x,
      .bias = bias_ ? static_cast<const float*>(bias_.get_data_handle()) : nullptr,
      .y = args.y,
      .accumulate = args.accumulate};
  constexpr std::int64_t kUnit = tile::VectorProduct::kUnit;
  const std::int64_t units = (out_features_ + kUnit - 1) / kUnit;
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t n = omp_get_num_threads();
    const std::int64_t i = omp_get_thread_num();
    tile::multiply_vector(product, units * i / n * kUnit,
                          std::min(units * (i + 1) / n * kUnit, out_features_));
  }
}

void PackedMatrix::multiply(dnnl::stream& stream, const LinearArgs& args, int threads,
                            std::vector<float>& x_scratch) const {
  if (args.n_rows == 1 && padded_in_ > 0) return multiply_one_row(args, threads, x_scratch);
  Product& product = this->product(args.n_rows, args.accumulate);
  // oneDNN's memory is not const-correct; a product only reads its sources.
  product.x.set_data_handle(const_cast<void*>(args.x));
  product.y.set_data_handle(args.y);
  // The C call, because the C++ one makes a map and a vector of its operands at every product.
  std::array<dnnl_exec_arg_t, 4> operands{{{DNNL_ARG_SRC, product.x.get()},
                                           {DNNL_ARG_WEIGHTS, packed_.get()},
                                           {DNNL_ARG_DST, product.y.get()}}};
  int n_operands = 3;
  if (bias_) operands[static_cast<std::size_t>(n_operands++)] = {DNNL_ARG_BIAS, bias_.get()};
  const dnnl_status_t status =
      dnnl_primitive_execute(product.primitive.get(), stream.get(), n_operands, operands.data());
  if (status != dnnl_success) {
    device_error("oneDNN product of {} x {}: status {}", in_features_, out_features_,
                 static_cast<int>(status));
  }
}

}  // namespace kvbench
