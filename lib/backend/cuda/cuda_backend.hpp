// The CUDA backend: own kernels (kernels/), cuBLAS for matrix products, one stream. All work is
// queued; only copy_out, nll and synchronize wait for it.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/backend.hpp"
#include "backend/cuda/cuda_attention.hpp"
#include "backend/cuda/cuda_handles.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/row_moves.hpp"
#include "backend/cuda/staging.hpp"

namespace kvbench {

// Why no CUDA device can be used here, or empty.
std::string_view cuda_obstacle();

class CudaBackend final : public Backend {
 public:
  // `threads` is what the host may use beside the device. DeviceError where there is no device.
  explicit CudaBackend(int threads);
  ~CudaBackend() override;

  std::string_view name() const override { return "cuda"; }
  int threads() const override { return threads_; }
  bool supports(Feature) const override { return true; }

  Buffer allocate(std::size_t bytes, MemoryMeter* meter) override;
  void copy_in(void* destination, const void* host_source, std::size_t bytes) override;
  void copy_out(void* host_destination, const void* source, std::size_t bytes) override;
  void copy_rows(void* destination, const void* source, std::size_t bytes) override;
  void synchronize() override { stream_.synchronize(); }

  std::unique_ptr<LinearWeight> make_linear(std::span<const TensorView> parts,
                                            std::span<const TensorView> biases,
                                            DType compute) override;
  std::unique_ptr<EmbeddingTable> make_table(const TensorView& rows) override;

  void embed(const EmbeddingTable& table, std::span<const std::int32_t> ids, float* out) override;
  void norm(const NormArgs& args) override;
  void linear(const LinearWeight& weight, const LinearArgs& args) override;
  void gated_activation(const GatedActivationArgs& args) override;
  void gather_rows(const GatherRowsArgs& args) override;
  void add_rows(const AddRowsArgs& args) override;
  void scale(float* x, std::int64_t n, float factor) override;
  void kv_append(const KvAppendArgs& args) override;
  void move_rows(std::span<const RowMove> moves, std::size_t row_bytes) override;
  void quantise(std::span<const QuantiseCall> calls) override;
  void attention(const AttentionArgs& args) override;
  void attention_weights(const AttentionWeightsArgs& args) override;
  void nll(const NllArgs& args) override;

 private:
  void nll_rows(const NllArgs& args, std::int64_t begin, std::int64_t n);

  int threads_;
  int n_multiprocessors_;
  CudaStream stream_;
  BlasHandle blas_;
  Staging staging_;
  RowMover row_mover_;
  CudaAttention attention_;
  DeviceWorkspace logits_;     // one block of rows x one block of vocabulary
  DeviceWorkspace nll_state_;  // FoldedLogits and results of one block of rows
};

}  // namespace kvbench
