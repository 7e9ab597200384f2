// Matrix products in f32, queued like every other work of a stream: plain loops, or oneDNN for
// large ones.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <dnnl.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/cuda_emulation/streams.hpp"

struct cublasContext {
  cudaStream_t stream = nullptr;
};

using kvbench::emulation::DeviceMemory;
using kvbench::emulation::machine;
using kvbench::emulation::queue_of;

namespace {

struct Product {
  std::int64_t m, n, k, lda, ldb, ldc;
  float alpha, beta;
  const void* a;  // column-major [k, m], used transposed
  const void* b;  // column-major [k, n]
  float* c;       // column-major [m, n]
};

// Rows of `width` elements, `stride` apart, as dense floats.
template <class In>
std::vector<float> widened(const void* from, std::int64_t rows, std::int64_t width,
                           std::int64_t stride) {
  std::vector<float> to(static_cast<std::size_t>(rows * width));
  float* out = to.data();
  for (std::int64_t row = 0; row < rows; ++row, out += width) {
    const In* in = static_cast<const In*>(from) + row * stride;
    for (std::int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(in[i]);
  }
  return to;
}

// Small products, the tests' own, in the plain order of terms.
void multiply_plainly(const Product& p, const std::vector<float>& a, const std::vector<float>& b) {
  for (std::int64_t column = 0; column < p.n; ++column) {
    for (std::int64_t row = 0; row < p.m; ++row) {
      float sum = 0.0f;
      for (std::int64_t i = 0; i < p.k; ++i) {
        sum += a[static_cast<std::size_t>(row * p.k + i)] *
               b[static_cast<std::size_t>(column * p.k + i)];
      }
      float& out = p.c[column * p.ldc + row];
      // beta 0 overwrites, whatever was there.
      out = p.beta == 0.0f ? p.alpha * sum : p.alpha * sum + p.beta * out;
    }
  }
}

template <class In>
std::string multiply(const Product& p) {
  const std::vector<float> a = widened<In>(p.a, p.m, p.k, p.lda);
  const std::vector<float> b = widened<In>(p.b, p.n, p.k, p.ldb);
  constexpr std::int64_t kSmall = 1 << 20;
  if (p.m * p.n * p.k <= kSmall) {
    multiply_plainly(p, a, b);
    return {};
  }
  // Row-major c [n, m] = b [n, k] a^T.
  const dnnl_status_t status = dnnl_sgemm('N', 'T', p.n, p.m, p.k, p.alpha, b.data(), p.k, a.data(),
                                          p.k, p.beta, p.c, p.ldc);
  return status == dnnl_success ? std::string() : "dnnl_sgemm failed";
}

}  // namespace

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown";
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  const bool there = machine().memory.contains(workspace, bytes, DeviceMemory::Kind::device);
  return handle != nullptr && there ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void* alpha, const void* a,
                            cudaDataType a_type, int lda, const void* b, cudaDataType b_type,
                            int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t, cublasGemmAlgo_t) {
  if (handle == nullptr || handle->stream == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (op_a != CUBLAS_OP_T || op_b != CUBLAS_OP_N || a_type != b_type || c_type != CUDA_R_32F) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (m <= 0 || n <= 0 || k <= 0 || lda < k || ldb < k || ldc < m) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Product product{m,
                        n,
                        k,
                        lda,
                        ldb,
                        ldc,
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta),
                        a,
                        b,
                        static_cast<float*>(c)};
  const std::size_t element = a_type == CUDA_R_32F ? sizeof(float) : sizeof(std::uint16_t);
  const auto queued = machine().enqueue(
      queue_of(handle->stream), {[=]() -> std::string {
        const DeviceMemory& memory = machine().memory;
        const auto inside = [&](const void* matrix, std::size_t columns, std::size_t stride,
                                std::size_t rows, std::size_t bytes) {
          return memory.contains(matrix, ((columns - 1) * stride + rows) * bytes,
                                 DeviceMemory::Kind::device);
        };
        const auto size = [](std::int64_t value) { return static_cast<std::size_t>(value); };
        if (!inside(product.a, size(product.m), size(product.lda), size(product.k), element) ||
            !inside(product.b, size(product.n), size(product.ldb), size(product.k), element) ||
            !inside(product.c, size(product.n), size(product.ldc), size(product.m),
                    sizeof(float))) {
          return "cublasGemmEx: a matrix does not lie in device memory";
        }
        return a_type == CUDA_R_32F ? multiply<float>(product) : multiply<__nv_bfloat16>(product);
      }});
  return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}
