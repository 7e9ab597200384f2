// SplitBackend: per operation, which device, and which bytes it reads and writes.
#include "backend/split/split_backend.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace kvbench {
namespace {

class SplitWeight final : public LinearWeight {
 public:
  SplitWeight(std::unique_ptr<LinearWeight> whole, std::size_t device, DType compute)
      : whole_(std::move(whole)), device_(device), compute_(compute) {}
  std::int64_t in_features() const override { return whole_->in_features(); }
  std::int64_t out_features() const override { return whole_->out_features(); }
  std::size_t bytes() const override { return whole_->bytes(); }
  const LinearWeight& whole() const { return *whole_; }
  std::size_t device() const { return device_; }
  DType compute() const { return compute_; }

 private:
  std::unique_ptr<LinearWeight> whole_;
  std::size_t device_;
  DType compute_;
};

struct SplitTable final : EmbeddingTable {
  std::unique_ptr<EmbeddingTable> whole;
  std::size_t device = 0;
  std::int64_t width = 0;
};

const SplitWeight& split(const LinearWeight& weight) {
  return static_cast<const SplitWeight&>(weight);
}

std::size_t bytes_of(std::int64_t elements, DType dtype = DType::f32) {
  return static_cast<std::size_t>(elements) * dtype_size(dtype);
}

// Elements from the first of n rows to the last one's end.
std::int64_t spanned(std::int64_t n_rows, std::int64_t width, std::int64_t stride) {
  return n_rows == 0 ? 0 : (n_rows - 1) * stride + width;
}

std::int64_t rows_named(const std::int32_t* rows, std::int64_t n) {
  return n == 0 ? 0 : std::int64_t{*std::max_element(rows, rows + n)} + 1;
}

}  // namespace

SplitBackend::SplitBackend(std::vector<std::unique_ptr<Backend>> devices)
    : devices_(std::move(devices)) {
  KVB_CHECK(!devices_.empty() && devices_.size() < 64, "{} devices", devices_.size());
}

void SplitBackend::place(double share) {
  const auto n = static_cast<double>(devices_.size());
  placed_ = std::min(devices_.size() - 1, static_cast<std::size_t>(share * n));
}

void SplitBackend::begin_step(std::int64_t n_tokens) {
  for (const auto& device : devices_) device->begin_step(n_tokens);
}

void SplitBackend::end_step() {
  for (const auto& device : devices_) device->end_step();
}

Buffer SplitBackend::allocate(std::size_t bytes, MemoryMeter* meter) {
  return memory_.allocate(bytes, meter);
}

void SplitBackend::copy_in(void* destination, const void* host_source, std::size_t bytes) {
  const std::size_t d = device_of(destination);
  devices_[d]->copy_in(memory_.write(d, destination, bytes), host_source, bytes);
}

void SplitBackend::copy_out(void* host_destination, const void* source, std::size_t bytes) {
  const std::size_t d = device_of(source);
  devices_[d]->copy_out(host_destination, memory_.read(d, source, bytes), bytes);
}

void SplitBackend::copy_rows(void* destination, const void* source, std::size_t bytes) {
  const std::size_t d = device_of(source);
  const void* from = memory_.read(d, source, bytes);
  devices_[d]->copy_rows(memory_.write(d, destination, bytes), from, bytes);
}

void SplitBackend::synchronize() {
  for (const auto& device : devices_) device->synchronize();
}

std::unique_ptr<LinearWeight> SplitBackend::make_linear(std::span<const TensorView> parts,
                                                        std::span<const TensorView> biases,
                                                        DType compute) {
  return std::make_unique<SplitWeight>(devices_[placed_]->make_linear(parts, biases, compute),
                                       placed_, compute);
}

std::unique_ptr<EmbeddingTable> SplitBackend::make_table(const TensorView& rows) {
  auto table = std::make_unique<SplitTable>();
  table->whole = devices_[placed_]->make_table(rows);
  table->device = placed_;
  table->width = rows.shape.at(1);
  return table;
}

void SplitBackend::embed(const EmbeddingTable& table, std::span<const std::int32_t> ids,
                         float* out) {
  const auto& whole = static_cast<const SplitTable&>(table);
  const auto n = static_cast<std::int64_t>(ids.size()) * whole.width;
  devices_[whole.device]->embed(*whole.whole, ids, memory_.write(whole.device, out, bytes_of(n)));
}

void SplitBackend::norm(const NormArgs& args) {
  const std::size_t d = device_of(args.x);
  NormArgs there = args;
  there.x = memory_.read(d, args.x, bytes_of(spanned(args.n_rows, args.width, args.x_stride)));
  there.weight = memory_.read(d, args.weight, args.weight == nullptr ? 0 : bytes_of(args.width));
  there.bias = memory_.read(d, args.bias, args.bias == nullptr ? 0 : bytes_of(args.width));
  // Between strided rows lies what others wrote.
  there.out = memory_.update(
      d, args.out, bytes_of(spanned(args.n_rows, args.width, args.out_stride), args.out_dtype));
  devices_[d]->norm(there);
}

void SplitBackend::linear(const LinearWeight& weight, const LinearArgs& args) {
  const SplitWeight& here = split(weight);
  const std::size_t d = here.device();
  const std::size_t y_bytes = bytes_of(args.n_rows * here.out_features());
  LinearArgs there = args;
  there.x = memory_.read(d, args.x, bytes_of(args.n_rows * here.in_features(), here.compute()));
  there.y =
      args.accumulate ? memory_.update(d, args.y, y_bytes) : memory_.write(d, args.y, y_bytes);
  devices_[d]->linear(here.whole(), there);
}

void SplitBackend::gated_activation(const GatedActivationArgs& args) {
  const std::size_t d = device_of(args.gate_up);
  GatedActivationArgs there = args;
  there.gate_up =
      memory_.read(d, args.gate_up, bytes_of(args.n_rows * args.width * (args.gated ? 2 : 1)));
  there.out = memory_.write(d, args.out, bytes_of(args.n_rows * args.width, args.out_dtype));
  devices_[d]->gated_activation(there);
}

void SplitBackend::gather_rows(const GatherRowsArgs& args) {
  const std::size_t d = device_of(args.x);
  GatherRowsArgs there = args;
  there.x = memory_.read(
      d, args.x, static_cast<std::size_t>(rows_named(args.rows, args.n_rows)) * args.row_bytes);
  there.out = memory_.write(d, args.out, static_cast<std::size_t>(args.n_rows) * args.row_bytes);
  devices_[d]->gather_rows(there);
}

void SplitBackend::add_rows(const AddRowsArgs& args) {
  const std::size_t d = device_of(args.x);
  AddRowsArgs there = args;
  there.x = memory_.read(d, args.x, bytes_of(args.n_rows * args.width));
  there.y = memory_.update(d, args.y, bytes_of(rows_named(args.rows, args.n_rows) * args.width));
  devices_[d]->add_rows(there);
}

void SplitBackend::scale(float* x, std::int64_t n, float factor) {
  const std::size_t d = device_of(x);
  devices_[d]->scale(memory_.update(d, x, bytes_of(n)), n, factor);
}

RopeRows SplitBackend::rope_on(std::size_t device, const RopeRows& rows, std::int64_t n,
                               const RopeShape& shape) const {
  const std::size_t bytes = bytes_of(n * (shape.rotary_dim / 2));
  return {memory_.read(device, rows.cosine, bytes), memory_.read(device, rows.sine, bytes)};
}

void SplitBackend::kv_append(const KvAppendArgs& args) {
  const std::size_t d = device_of(args.k);
  const auto n_kv_heads = static_cast<std::int64_t>(args.k_rows.size());
  const std::size_t spanned_bytes =
      bytes_of(spanned(args.n_tokens, n_kv_heads * args.head_dim, args.stride));
  const std::size_t row_bytes = bytes_of(args.n_tokens * args.head_dim, args.kv_dtype);
  std::vector<void*> k_rows, v_rows;
  for (void* rows : args.k_rows) k_rows.push_back(memory_.write(d, rows, row_bytes));
  for (void* rows : args.v_rows) v_rows.push_back(memory_.write(d, rows, row_bytes));
  KvAppendArgs there = args;
  there.k = memory_.read(d, args.k, spanned_bytes);
  there.v = memory_.read(d, args.v, spanned_bytes);
  there.k_rows = k_rows;
  there.v_rows = v_rows;
  there.rope = rope_on(d, args.rope, args.n_tokens, args.rope_shape);
  devices_[d]->kv_append(there);
}

void SplitBackend::move_rows(std::span<const RowMove> moves, std::size_t row_bytes) {
  std::vector<std::vector<RowMove>> there(devices_.size());
  for (const RowMove& move : moves) {
    if (move.n_rows == 0) continue;
    const auto at = [&](std::int64_t row) {
      return static_cast<std::byte*>(move.slab) + static_cast<std::size_t>(row) * row_bytes;
    };
    const std::size_t bytes = static_cast<std::size_t>(move.n_rows) * row_bytes;
    const std::size_t d = device_of(at(move.src_row));
    memory_.read(d, at(move.src_row), bytes);
    memory_.write(d, at(move.dst_row), bytes);
    there[d].push_back({memory_.update(d, move.slab, 0), move.dst_row, move.src_row, move.n_rows});
  }
  for (std::size_t d = 0; d < there.size(); ++d) {
    if (!there[d].empty()) devices_[d]->move_rows(there[d], row_bytes);
  }
}

// The views stay valid until the next call.
AttentionArgs SplitBackend::attention_on(std::size_t device, const AttentionArgs& args) {
  views_.assign(args.kv.begin(), args.kv.end());
  std::int64_t longest = 0;
  for (KvHeadView& view : views_) {
    const std::size_t bytes = bytes_of(view.length * args.head_dim, args.kv_dtype);
    view.keys = memory_.read(device, view.keys, bytes);
    view.values = memory_.read(device, view.values, bytes);
    longest = std::max(longest, view.length);
  }
  AttentionArgs there = args;
  there.q =
      memory_.read(device, args.q,
                   bytes_of(spanned(args.n_tokens, args.n_heads * args.head_dim, args.q_stride)));
  there.kv = views_;
  there.q_rope = rope_on(device, args.q_rope, args.n_tokens, args.rope_shape);
  there.q_rope_sink = rope_on(device, args.q_rope_sink, args.n_tokens, args.rope_shape);
  there.slot_rope = rope_on(device, args.slot_rope, longest, args.rope_shape);
  return there;
}

void SplitBackend::attention(const AttentionArgs& args) {
  const std::size_t d = device_of(args.q);
  AttentionArgs there = attention_on(d, args);
  const std::int64_t rows = args.n_tokens * args.n_heads;
  there.out = memory_.write(d, args.out, bytes_of(rows * args.head_dim, args.out_dtype));
  there.log_sum_exp = memory_.write(d, args.log_sum_exp, bytes_of(rows));
  devices_[d]->attention(there);
}

void SplitBackend::attention_weights(const AttentionWeightsArgs& args) {
  const AttentionArgs& attention = args.attention;
  const std::size_t d = device_of(attention.q);
  const std::int64_t rows = attention.n_heads * (args.sum_tokens ? 1 : attention.n_tokens);
  AttentionWeightsArgs there = args;
  there.attention = attention_on(d, attention);
  there.attention.out = nullptr;
  there.attention.log_sum_exp = nullptr;
  there.log_sum_exp =
      memory_.read(d, args.log_sum_exp, bytes_of(attention.n_tokens * attention.n_heads));
  // Slots beyond a head's length are not written.
  there.weights = memory_.update(d, args.weights, bytes_of(rows * args.row_stride));
  devices_[d]->attention_weights(there);
}

void SplitBackend::nll(const NllArgs& args) {
  const SplitWeight& first = split(*args.vocabulary.front());
  const std::size_t d = first.device();
  std::vector<const LinearWeight*> vocabulary;
  for (const LinearWeight* block : args.vocabulary) {
    KVB_CHECK(split(*block).device() == d, "a vocabulary over several devices");
    vocabulary.push_back(&split(*block).whole());
  }
  NllArgs there = args;
  there.hidden =
      memory_.read(d, args.hidden, bytes_of(args.n_rows * first.in_features(), first.compute()));
  there.vocabulary = vocabulary;
  devices_[d]->nll(there);
}

}  // namespace kvbench
