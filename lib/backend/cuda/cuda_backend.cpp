// CudaBackend's operations: host arrays are staged, shapes become kernel parameters.
#include "backend/cuda/cuda_backend.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "backend/cuda/device_matrix.hpp"
#include "backend/cuda/kernel_arguments.hpp"
#include "backend/cuda/quantised_storage.hpp"
#include "core/error.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embed.hpp"
#include "kernels/gated_activation.hpp"
#include "kernels/kv_append.hpp"
#include "kernels/nll.hpp"
#include "kernels/norm.hpp"
#include "kernels/rows.hpp"

namespace kvbench {
namespace {

class DeviceTable final : public EmbeddingTable {
 public:
  explicit DeviceTable(const TensorView& rows)
      : rows_(device_buffer(rows.byte_count())), width_(rows.shape.at(1)) {
    require_float_dtype(rows, "embedding");
    dtype_ = rows.dtype == DType::f32   ? TableDtype::f32
             : rows.dtype == DType::f16 ? TableDtype::f16
                                        : TableDtype::bf16;
  }
  void* data() { return rows_.as<void>(); }
  EmbedParams params(const std::int32_t* ids, std::int64_t n, float* out) const {
    return {.table = rows_.as<void>(),
            .table_dtype = dtype_,
            .ids = ids,
            .out = out,
            .n_rows = n,
            .width = width_};
  }

 private:
  Buffer rows_;
  std::int64_t width_;
  TableDtype dtype_ = TableDtype::f32;
};

}  // namespace

std::unique_ptr<LinearWeight> CudaBackend::make_linear(std::span<const TensorView> parts,
                                                       std::span<const TensorView> biases,
                                                       DType compute) {
  queue_directly();
  return std::make_unique<DeviceMatrix>(parts, biases, compute, stream_.get());
}

std::unique_ptr<EmbeddingTable> CudaBackend::make_table(const TensorView& rows) {
  queue_directly();
  auto table = std::make_unique<DeviceTable>(rows);
  copy_in(table->data(), rows.data, rows.byte_count());
  synchronize();
  return table;
}

void CudaBackend::embed(const EmbeddingTable& table, std::span<const std::int32_t> ids,
                        float* out) {
  queue_work();
  Staging::Block block = staging_.open(ids.size_bytes() + Staging::kArrayPadding);
  auto* staged = block.add<std::int32_t>(static_cast<std::int64_t>(ids.size()));
  std::copy(ids.begin(), ids.end(), staged);
  block.send();
  kvbench::embed(static_cast<const DeviceTable&>(table).params(
                     block.on_device(staged), static_cast<std::int64_t>(ids.size()), out),
                 stream_.get());
}

void CudaBackend::norm(const NormArgs& args) {
  queue_work();
  const auto queue = [&]<class Out>(Out* out) {
    norm_rows<Out>({.x = args.x,
                    .out = out,
                    .weight = args.weight,
                    .bias = args.kind == NormKind::layer ? args.bias : nullptr,
                    .n_rows = args.n_rows,
                    .width = args.width,
                    .x_stride = args.x_stride,
                    .out_stride = args.out_stride,
                    .epsilon = static_cast<float>(args.epsilon),
                    .kind = args.kind,
                    .accumulate = args.accumulate},
                   stream_.get());
  };
  if (is_bf16(args.out_dtype)) {
    queue(static_cast<__nv_bfloat16*>(args.out));
  } else {
    queue(static_cast<float*>(args.out));
  }
}

void CudaBackend::linear(const LinearWeight& weight, const LinearArgs& args) {
  queue_work();
  static_cast<const DeviceMatrix&>(weight).multiply(blas_, args, stream_.get());
}

void CudaBackend::gated_activation(const GatedActivationArgs& args) {
  queue_work();
  const auto queue = [&]<class Out>(Out* out) {
    kvbench::gated_activation<Out>({.gate_up = args.gate_up,
                                    .out = out,
                                    .n_rows = args.n_rows,
                                    .width = args.width,
                                    .activation = args.activation,
                                    .gated = args.gated},
                                   stream_.get());
  };
  if (is_bf16(args.out_dtype)) {
    queue(static_cast<__nv_bfloat16*>(args.out));
  } else {
    queue(static_cast<float*>(args.out));
  }
}

void CudaBackend::gather_rows(const GatherRowsArgs& args) {
  queue_work();
  const auto n = static_cast<std::size_t>(args.n_rows);
  Staging::Block block = staging_.open(n * sizeof(std::int32_t) + Staging::kArrayPadding);
  auto* rows = block.add<std::int32_t>(args.n_rows);
  std::copy_n(args.rows, args.n_rows, rows);
  block.send();
  kvbench::gather_rows({.x = args.x,
                        .out = args.out,
                        .rows = block.on_device(rows),
                        .n_rows = args.n_rows,
                        .row_bytes = args.row_bytes},
                       stream_.get());
}

void CudaBackend::add_rows(const AddRowsArgs& args) {
  queue_work();
  const auto n = static_cast<std::size_t>(args.n_rows);
  Staging::Block block =
      staging_.open(n * (sizeof(std::int32_t) + sizeof(float)) + 2 * Staging::kArrayPadding);
  auto* rows = block.add<std::int32_t>(args.n_rows);
  auto* weights = block.add<float>(args.n_rows);
  std::copy_n(args.rows, args.n_rows, rows);
  std::copy_n(args.weights, args.n_rows, weights);
  std::vector<std::int32_t> sorted(args.rows, args.rows + args.n_rows);
  std::sort(sorted.begin(), sorted.end());
  block.send();
  kvbench::add_rows({.x = args.x,
                     .y = args.y,
                     .rows = block.on_device(rows),
                     .weights = block.on_device(weights),
                     .n_rows = args.n_rows,
                     .width = args.width,
                     .distinct = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()},
                    stream_.get());
}

void CudaBackend::scale(float* x, std::int64_t n, float factor) {
  queue_work();
  scale_elements(
      {.x = x, .n = n, .factor = factor, .limit = std::numeric_limits<float>::infinity()},
      stream_.get());
}

void CudaBackend::kv_append(const KvAppendArgs& args) {
  queue_work();
  const auto n_kv_heads = static_cast<std::int64_t>(args.k_rows.size());
  Staging::Block block = staging_.open(args.k_rows.size_bytes() + args.v_rows.size_bytes() +
                                       2 * Staging::kArrayPadding);
  auto* k_rows = block.add<void*>(n_kv_heads);
  auto* v_rows = block.add<void*>(n_kv_heads);
  std::copy(args.k_rows.begin(), args.k_rows.end(), k_rows);
  std::copy(args.v_rows.begin(), args.v_rows.end(), v_rows);
  block.send();
  kvbench::kv_append({.k = args.k,
                      .v = args.v,
                      .stride = args.stride,
                      .n_tokens = args.n_tokens,
                      .n_kv_heads = static_cast<int>(n_kv_heads),
                      .head_dim = static_cast<int>(args.head_dim),
                      .k_rows = block.on_device(k_rows),
                      .v_rows = block.on_device(v_rows),
                      .kv_bf16 = is_bf16(args.kv_dtype),
                      .rope = rope_table(args.rope, args.rope_shape)},
                     stream_.get());
}

void CudaBackend::move_rows(std::span<const RowMove> moves, std::size_t row_bytes) {
  queue_work();
  row_mover_.move(moves, row_bytes);
}

void CudaBackend::quantise(std::span<const QuantiseCall> calls) {
  queue_work();
  queue_quantise(calls, staging_, stream_.get());
}

void CudaBackend::attention(const AttentionArgs& args) {
  queue_work();
  attention_.run(args);
}

void CudaBackend::attention_weights(const AttentionWeightsArgs& args) {
  queue_work();
  attention_.weights(args);
}

void CudaBackend::nll(const NllArgs& args) {
  constexpr std::int64_t kRowBlock = 1024;
  for (std::int64_t begin = 0; begin < args.n_rows; begin += kRowBlock) {
    nll_rows(args, begin, std::min(kRowBlock, args.n_rows - begin));
  }
}

// Rows [begin, begin + n): the vocabulary passes by in blocks, folded into a log-sum-exp per row.
void CudaBackend::nll_rows(const NllArgs& args, std::int64_t begin, std::int64_t n) {
  queue_work();
  const auto rows = static_cast<std::size_t>(n);
  Staging::Block block = staging_.open(rows * sizeof(std::int32_t) + Staging::kArrayPadding);
  auto* targets = block.add<std::int32_t>(n);
  std::copy_n(args.targets + begin, n, targets);
  block.send();
  auto* folded = nll_state_.get<FoldedLogits>(2 * rows);
  auto* results = reinterpret_cast<double*>(folded + n);

  std::int64_t first_id = 0;
  for (const LinearWeight* weight : args.vocabulary) {
    const auto& matrix = static_cast<const DeviceMatrix&>(*weight);
    const std::int64_t width = matrix.out_features();
    float* logits = logits_.get<float>(rows * static_cast<std::size_t>(width));
    const auto* hidden =
        static_cast<const std::byte*>(args.hidden) +
        static_cast<std::size_t>(begin * matrix.in_features()) * dtype_size(matrix.compute());
    linear(matrix, {.x = hidden, .y = logits, .n_rows = n, .accumulate = false});
    fold_logits({.logits = logits,
                 .targets = block.on_device(targets),
                 .folded = folded,
                 .n_rows = n,
                 .width = width,
                 .first_id = first_id,
                 .logit_scale = static_cast<float>(args.logit_scale),
                 .logit_cap = static_cast<float>(args.logit_cap),
                 .first_block = first_id == 0},
                stream_.get());
    first_id += width;
  }
  finish_nll({.folded = folded, .nll = results, .n_rows = n}, stream_.get());
  copy_out(args.nll + begin, results, rows * sizeof(double));
}

}  // namespace kvbench
