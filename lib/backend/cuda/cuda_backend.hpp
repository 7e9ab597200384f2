// The CUDA backend: own kernels (kernels/), cuBLAS for matrix products, one device and stream. All
// work is queued; only copy_out, nll and synchronize wait for it. Steps of few tokens are queued as
// graphs.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/backend.hpp"
#include "backend/cuda/cuda_attention.hpp"
#include "backend/cuda/cuda_handles.hpp"
#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/row_moves.hpp"
#include "backend/cuda/staging.hpp"
#include "backend/cuda/step_capture.hpp"

namespace kvbench {

// Why no CUDA device can be used here, or empty.
std::string_view cuda_obstacle();

int cuda_device_count();

struct CudaOptions {
  int device = 0;
  bool graphs = true;  // decoding steps as CUDA graphs
};

class CudaBackend final : public Backend {
 public:
  // `threads` is what the host may use beside the device. DeviceError where there is no such
  // device.
  explicit CudaBackend(int threads, const CudaOptions& options = {});
  ~CudaBackend() override;

  std::string_view name() const override { return "cuda"; }
  int threads() const override { return threads_; }
  bool supports(Feature) const override { return true; }

  void begin_step(std::int64_t n_tokens) override;
  void end_step() override;

  Buffer allocate(std::size_t bytes, MemoryMeter* meter) override;
  void copy_in(void* destination, const void* host_source, std::size_t bytes) override;
  void copy_out(void* host_destination, const void* source, std::size_t bytes) override;
  void copy_rows(void* destination, const void* source, std::size_t bytes) override;
  void copy_from(Backend& other, void* destination, const void* source, std::size_t bytes) override;
  void synchronize() override;

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
  // Makes the device the one that CUDA calls mean.
  void use_device() const;
  // Before work is queued that a graph can hold; before anything else.
  void queue_work();
  void queue_directly();
  void nll_rows(const NllArgs& args, std::int64_t begin, std::int64_t n);

  int threads_;
  bool graphs_;
  int device_;
  int n_multiprocessors_;
  CudaStream stream_;
  StepCapture capture_;
  CudaEvent queued_;   // for another device to wait for
  CudaEvent arrived_;  // the same: a copy from it has been made
  BlasHandle blas_;
  Buffer blas_workspace_;
  Staging staging_;
  RowMover row_mover_;
  CudaAttention attention_;
  DeviceWorkspace logits_;     // one block of rows x one block of vocabulary
  DeviceWorkspace nll_state_;  // FoldedLogits and results of one block of rows
};

}  // namespace kvbench
