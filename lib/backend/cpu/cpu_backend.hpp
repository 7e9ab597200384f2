// The CPU backend: oneDNN for matrix products, own SIMD for the rest, one OpenMP pool for both.
#pragma once

#include <dnnl.hpp>

#include <string_view>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cpu/attention.hpp"
#include "backend/cpu/attention_weights.hpp"
#include "backend/cpu/tile_kernels.hpp"
#include "backend/cpu/weight_arena.hpp"

namespace kvbench {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int threads);

  std::string_view name() const override { return "cpu"; }
  int threads() const override { return threads_; }
  bool supports(Feature) const override { return true; }

  Buffer allocate(std::size_t bytes, MemoryMeter* meter) override;
  void copy_in(void* destination, const void* host_source, std::size_t bytes) override;
  void copy_out(void* host_destination, const void* source, std::size_t bytes) override;
  void copy_rows(void* destination, const void* source, std::size_t bytes) override;
  void synchronize() override {}

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
  void for_each(std::int64_t n, const std::function<void(std::int64_t)>& work) override;

 private:
  void nll_rows(const NllArgs& args, std::int64_t begin, std::int64_t n);

  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  WeightArena arena_;
  std::vector<AttentionScratch> attention_scratch_;      // [threads]
  std::vector<std::vector<WeightsTile>> weights_tiles_;  // [threads] that call attention_weights
  std::vector<std::vector<float>> decode_parts_;         // [threads] that call attention
  std::vector<std::vector<float>> row_scratch_;          // [threads], one row each
  std::vector<float> logits_;            // one block of rows x one block of vocabulary
  std::vector<tile::LogSumExp> folded_;  // [rows of the block]
  std::vector<double> target_logits_;    // [rows of the block]
};

}  // namespace kvbench
