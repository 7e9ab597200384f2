// Definitions of profiling_backend.hpp.
#include "backend/profiling_backend.hpp"

#include "core/clock.hpp"

namespace kvbench {
namespace {

double product_flops(const LinearWeight& weight, std::int64_t n_rows) {
  return 2.0 * static_cast<double>(n_rows) * static_cast<double>(weight.in_features()) *
         static_cast<double>(weight.out_features());
}

double stored_bytes(const AttentionArgs& args) {
  const auto row =
      static_cast<double>(args.head_dim) * static_cast<double>(dtype_size(args.kv_dtype));
  double bytes = 0.0;
  for (const KvHeadView& head : args.kv) bytes += 2.0 * static_cast<double>(head.length) * row;
  return bytes;
}

}  // namespace

template <class Work>
void ProfilingBackend::timed(Op op, Work&& work) {
  backend_.synchronize();
  const auto start = Clock::now();
  work();
  backend_.synchronize();
  OpProfile& entry = profile_[op];
  entry.seconds += seconds_since(start);
  ++entry.calls;
}

void ProfilingBackend::clear() {
  for (OpProfile& entry : profile_) entry = {entry.name};
}

Buffer ProfilingBackend::allocate(std::size_t bytes, MemoryMeter* meter) {
  return backend_.allocate(bytes, meter);
}

void ProfilingBackend::copy_in(void* destination, const void* host_source, std::size_t bytes) {
  timed(kCopy, [&] { backend_.copy_in(destination, host_source, bytes); });
}

void ProfilingBackend::copy_out(void* host_destination, const void* source, std::size_t bytes) {
  timed(kCopy, [&] { backend_.copy_out(host_destination, source, bytes); });
}

void ProfilingBackend::copy_rows(void* destination, const void* source, std::size_t bytes) {
  timed(kCopy, [&] { backend_.copy_rows(destination, source, bytes); });
}

std::unique_ptr<LinearWeight> ProfilingBackend::make_linear(std::span<const TensorView> parts,
                                                            std::span<const TensorView> biases,
                                                            DType compute) {
  return backend_.make_linear(parts, biases, compute);
}

std::unique_ptr<EmbeddingTable> ProfilingBackend::make_table(const TensorView& rows) {
  return backend_.make_table(rows);
}

void ProfilingBackend::embed(const EmbeddingTable& table, std::span<const std::int32_t> ids,
                             float* out) {
  timed(kEmbed, [&] { backend_.embed(table, ids, out); });
}

void ProfilingBackend::norm(const NormArgs& args) {
  timed(kNorm, [&] { backend_.norm(args); });
}

void ProfilingBackend::linear(const LinearWeight& weight, const LinearArgs& args) {
  timed(kLinear, [&] { backend_.linear(weight, args); });
  profile_[kLinear].flops += product_flops(weight, args.n_rows);
  profile_[kLinear].bytes += static_cast<double>(weight.bytes());
}

void ProfilingBackend::gated_activation(const GatedActivationArgs& args) {
  timed(kActivation, [&] { backend_.gated_activation(args); });
}

void ProfilingBackend::gather_rows(const GatherRowsArgs& args) {
  timed(kRows, [&] { backend_.gather_rows(args); });
}

void ProfilingBackend::add_rows(const AddRowsArgs& args) {
  timed(kRows, [&] { backend_.add_rows(args); });
}

void ProfilingBackend::scale(float* x, std::int64_t n, float factor) {
  timed(kRows, [&] { backend_.scale(x, n, factor); });
}

void ProfilingBackend::kv_append(const KvAppendArgs& args) {
  timed(kKvAppend, [&] { backend_.kv_append(args); });
}

void ProfilingBackend::move_rows(std::span<const RowMove> moves, std::size_t row_bytes) {
  timed(kKvMove, [&] { backend_.move_rows(moves, row_bytes); });
}

void ProfilingBackend::quantise(std::span<const QuantiseCall> calls) {
  timed(kQuantise, [&] { backend_.quantise(calls); });
}

void ProfilingBackend::attention(const AttentionArgs& args) {
  timed(kAttention, [&] { backend_.attention(args); });
  profile_[kAttention].bytes += stored_bytes(args);
}

void ProfilingBackend::attention_weights(const AttentionWeightsArgs& args) {
  timed(kAttentionWeights, [&] { backend_.attention_weights(args); });
  profile_[kAttentionWeights].bytes += stored_bytes(args.attention) / 2;  // keys only
}

void ProfilingBackend::nll(const NllArgs& args) {
  timed(kNll, [&] { backend_.nll(args); });
  for (const LinearWeight* block : args.vocabulary) {
    profile_[kNll].flops += product_flops(*block, args.n_rows);
    profile_[kNll].bytes += static_cast<double>(block->bytes());
  }
}

}  // namespace kvbench
