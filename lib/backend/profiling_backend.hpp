// A backend that passes every operation on to another one and notes what it took: calls, seconds,
// and for products their arithmetic and the bytes of weights read. Results are those of the other.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "backend/backend.hpp"

namespace kvbench {

struct OpProfile {
  std::string_view name;
  std::int64_t calls = 0;
  double seconds = 0.0;
  double flops = 0.0;  // of products; 0 for other operations
  double bytes = 0.0;  // of weights, and of stored keys and values, each counted once per call
};

class ProfilingBackend final : public Backend {
 public:
  // `backend` must outlive this object.
  explicit ProfilingBackend(Backend& backend) : backend_(backend) {}
  explicit ProfilingBackend(std::unique_ptr<Backend> backend)
      : owned_(std::move(backend)), backend_(*owned_) {}

  // One entry per operation, in a fixed order.
  std::span<const OpProfile> profile() const { return profile_; }
  void clear();

  std::string_view name() const override { return backend_.name(); }
  int threads() const override { return backend_.threads(); }
  bool supports(Feature feature) const override { return backend_.supports(feature); }
  void place(double share) override { backend_.place(share); }

  Buffer allocate(std::size_t bytes, MemoryMeter* meter) override;
  void copy_in(void* destination, const void* host_source, std::size_t bytes) override;
  void copy_out(void* host_destination, const void* source, std::size_t bytes) override;
  void copy_rows(void* destination, const void* source, std::size_t bytes) override;
  void synchronize() override { backend_.synchronize(); }
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
  // for_each is the inherited one: operations one at a time, so that each has a time of its own.

 private:
  enum Op : std::uint8_t {
    kCopy,
    kEmbed,
    kNorm,
    kLinear,
    kActivation,
    kRows,
    kKvAppend,
    kKvMove,
    kQuantise,
    kAttention,
    kAttentionWeights,
    kNll,
    kOpCount
  };

  // Runs the work to its end, on the device too.
  template <class Work>
  void timed(Op op, Work&& work);

  std::unique_ptr<Backend> owned_;  // or null
  Backend& backend_;
  OpProfile profile_[kOpCount] = {
      {"copy"},      {"embed"},   {"norm"},     {"linear"},    {"activation"},        {"rows"},
      {"kv_append"}, {"kv_move"}, {"quantise"}, {"attention"}, {"attention_weights"}, {"nll"}};
};

}  // namespace kvbench
