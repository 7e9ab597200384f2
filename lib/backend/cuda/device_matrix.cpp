// Uploading matrices, and their products through cublasGemmEx.
#include "backend/cuda/device_matrix.hpp"

#include <climits>
#include <vector>

#include "backend/cuda/device_memory.hpp"
#include "kernels/elementwise.hpp"

namespace kvbench {
namespace {

void upload(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
}

// The part's rows in the compute dtype, converted a slice at a time, to `out` on the device.
void upload_rows(const TensorView& part, DType compute, std::byte* out, cudaStream_t stream) {
  const std::int64_t n = part.element_count();
  if (part.dtype == compute) {
    upload(out, part.data, part.byte_count(), stream);
    return;
  }
  constexpr std::int64_t kSlice = 1 << 20;
  std::vector<float> values;
  std::vector<std::uint16_t> rounded;
  for (std::int64_t first = 0; first < n; first += kSlice) {
    const std::int64_t count = std::min(kSlice, n - first);
    values.resize(static_cast<std::size_t>(count));
    to_floats(part, first, count, values.data());
    std::byte* to = out + static_cast<std::size_t>(first) * dtype_size(compute);
    if (compute == DType::f32) {
      upload(to, values.data(), values.size() * sizeof(float), stream);
      continue;
    }
    rounded.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) rounded[i] = float_to_bf16(values[i]);
    upload(to, rounded.data(), rounded.size() * sizeof(std::uint16_t), stream);
  }
}

int blas_size(std::int64_t size) {
  KVB_CHECK(size <= INT_MAX, "matrix dimension {}", size);
  return static_cast<int>(size);
}

}  // namespace

DeviceMatrix::DeviceMatrix(std::span<const TensorView> parts, std::span<const TensorView> biases,
                           DType compute, cudaStream_t stream)
    : in_features_(parts.front().shape.at(1)), compute_(compute) {
  KVB_CHECK(compute == DType::f32 || compute == DType::bf16, "compute dtype {}",
            dtype_name(compute));
  for (const TensorView& part : parts) {
    KVB_CHECK(part.shape.size() == 2 && part.shape[1] == in_features_, "part is {}",
              to_string(part.shape));
    out_features_ += part.shape[0];
  }
  weights_ =
      device_buffer(static_cast<std::size_t>(in_features_ * out_features_) * dtype_size(compute));
  auto* to = weights_.as<std::byte>();
  bool has_bias = false;
  std::vector<float> bias(static_cast<std::size_t>(out_features_), 0.0f);
  float* bias_of_part = bias.data();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    upload_rows(parts[i], compute, to, stream);
    to += static_cast<std::size_t>(parts[i].element_count()) * dtype_size(compute);
    if (i < biases.size() && biases[i].data != nullptr) {
      has_bias = true;
      to_floats(biases[i], 0, parts[i].shape[0], bias_of_part);
    }
    bias_of_part += parts[i].shape[0];
  }
  if (has_bias) {
    bias_ = device_buffer(bias.size() * sizeof(float));
    upload(bias_.as<void>(), bias.data(), bias_.bytes(), stream);
  }
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

// Row-major y = x W^T is, column by column, y^T [out, rows] = W [out, in] x^T [in, rows].
void DeviceMatrix::multiply(const BlasHandle& blas, const LinearArgs& args,
                            cudaStream_t stream) const {
  if (args.n_rows == 0) return;
  const bool has_bias = bias_.bytes() > 0;
  if (has_bias) {
    spread_bias({.y = args.y,
                 .bias = bias_.as<float>(),
                 .n_rows = args.n_rows,
                 .width = out_features_,
                 .accumulate = args.accumulate},
                stream);
  }
  const float one = 1.0f;
  const float beta = has_bias || args.accumulate ? 1.0f : 0.0f;
  const cudaDataType type = compute_ == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
  const int in = blas_size(in_features_);
  const int out = blas_size(out_features_);
  // CUBLAS_COMPUTE_32F keeps f32 products in f32: TF32 would have to be asked for.
  check_blas(cublasGemmEx(blas.get(), CUBLAS_OP_T, CUBLAS_OP_N, out, blas_size(args.n_rows), in,
                          &one, weights_.as<void>(), type, in, args.x, type, in, &beta, args.y,
                          CUDA_R_32F, out, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
             "cublasGemmEx");
  if (args.clip > 0.0f) {
    scale_elements(
        {.x = args.y, .n = args.n_rows * out_features_, .factor = 1.0f, .limit = args.clip},
        stream);
  }
}

}  // namespace kvbench
