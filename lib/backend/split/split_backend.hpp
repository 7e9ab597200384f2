// One model over several devices of one kind: consecutive layers on each, by the bytes of their
// weights. Each operation runs where its weights are, or where its input was made, so that a
// layer's keys and values stay with it and hidden states cross over where the next range of layers
// begins. Arithmetic is the devices' own: results are those of one device.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.hpp"
#include "backend/split/spread_memory.hpp"

namespace kvbench {

class SplitBackend final : public Backend {
 public:
  // At least one, at most 63.
  explicit SplitBackend(std::vector<std::unique_ptr<Backend>> devices);

  std::string_view name() const override { return devices_.front()->name(); }
  int threads() const override { return devices_.front()->threads(); }
  bool supports(Feature feature) const override {
    return feature != Feature::quantised_kv && devices_.front()->supports(feature);
  }
  void place(double share) override;
  void begin_step(std::int64_t n_tokens) override;
  void end_step() override;

  Buffer allocate(std::size_t bytes, MemoryMeter* meter) override;
  void copy_in(void* destination, const void* host_source, std::size_t bytes) override;
  void copy_out(void* host_destination, const void* source, std::size_t bytes) override;
  void copy_rows(void* destination, const void* source, std::size_t bytes) override;
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
  void attention(const AttentionArgs& args) override;
  void attention_weights(const AttentionWeightsArgs& args) override;
  void nll(const NllArgs& args) override;

 private:
  // Where memory that was written last lies, else where weights are placed now.
  std::size_t device_of(const void* address) const { return memory_.device_of(address, placed_); }
  RopeRows rope_on(std::size_t device, const RopeRows& rows, std::int64_t n,
                   const RopeShape& shape) const;
  AttentionArgs attention_on(std::size_t device, const AttentionArgs& args);

  std::vector<std::unique_ptr<Backend>> devices_;
  SpreadMemory memory_{devices_};
  std::size_t placed_ = 0;         // the device of what is prepared now
  std::vector<KvHeadView> views_;  // of the last attention_on
};

}  // namespace kvbench
