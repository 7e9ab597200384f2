// Matrix products on the GPU: the one file pair that calls cuBLAS.
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.hpp"
#include "backend/cuda/cuda_handles.hpp"
#include "core/buffer.hpp"

namespace kvbench {

// One matrix W [out_features, in_features] in device memory, used as x W^T.
class DeviceMatrix final : public LinearWeight {
 public:
  // Rows of `parts` stacked; see Backend::make_linear. Returns when all is copied.
  DeviceMatrix(std::span<const TensorView> parts, std::span<const TensorView> biases, DType compute,
               cudaStream_t stream);

  std::int64_t in_features() const override { return in_features_; }
  std::int64_t out_features() const override { return out_features_; }
  std::size_t bytes() const override { return weights_.bytes(); }
  DType compute() const { return compute_; }

  // Queues y [n_rows, out] = x [n_rows, in] W^T + bias, or += with `accumulate`.
  void multiply(const BlasHandle& blas, const LinearArgs& args, cudaStream_t stream) const;

 private:
  std::int64_t in_features_;
  std::int64_t out_features_ = 0;
  DType compute_;
  Buffer weights_;  // [out_features, in_features] of compute_
  Buffer bias_;     // [out_features] f32, or empty
};

}  // namespace kvbench
