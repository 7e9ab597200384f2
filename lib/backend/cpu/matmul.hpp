// Matrix products on the CPU: the one file pair that knows oneDNN (2.x and 3.x).
// Weights are packed once into the layout that oneDNN prefers; primitives are kept per row count.
#pragma once

#include <dnnl.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cpu/weight_arena.hpp"

namespace kvbench {

// One packed matrix W [out_features, in_features], used as x W^T.
class PackedMatrix final : public LinearWeight {
 public:
  // Rows of `parts` stacked; see Backend::make_linear. DeviceError if this processor has no fast
  // product for the dtype.
  PackedMatrix(const dnnl::engine& engine, WeightArena& arena, std::span<const TensorView> parts,
               std::span<const TensorView> biases, DType compute);

  std::int64_t in_features() const override { return in_features_; }
  std::int64_t out_features() const override { return out_features_; }
  std::size_t bytes() const override { return packed_.get_desc().get_size(); }
  DType compute() const { return compute_; }

  // y [n_rows, out] = x [n_rows, in] W^T + bias, or += with `accumulate`. Not thread-safe.
  // `x_scratch` is working memory that grows to the widest matrix and is then reused.
  void multiply(dnnl::stream& stream, const LinearArgs& args, int threads,
                std::vector<float>& x_scratch) const;

 private:
  using Key = std::pair<std::int64_t, bool>;  // n_rows, accumulate
  // A product of one shape, with its operands, whose addresses are set at each call.
  struct Product {
    dnnl::matmul primitive;
    dnnl::memory x;  // [n_rows, in_features]
    dnnl::memory y;  // [n_rows, out_features] f32
  };

  void multiply_one_row(const LinearArgs& args, int threads, std::vector<float>& x_scratch) const;
  Product& product(std::int64_t n_rows, bool accumulate) const;
  dnnl::matmul::primitive_desc describe(std::int64_t n_rows, bool accumulate,
                                        const dnnl::memory::desc& weights) const;
  void pack(WeightArena& arena, std::span<const TensorView> parts);

  dnnl::engine engine_;
  std::int64_t in_features_ = 0;
  std::int64_t out_features_ = 0;
  DType compute_;
  std::shared_ptr<std::byte> storage_;  // of packed_
  dnnl::memory packed_;
  std::int64_t padded_in_ = 0;  // where the layout is one that VectorProduct reads, else 0
  dnnl::memory bias_;           // [1, out_features] f32, or empty
  mutable std::map<Key, Product> products_;
};

}  // namespace kvbench
