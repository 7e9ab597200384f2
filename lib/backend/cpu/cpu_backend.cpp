// CpuBackend's operations. Rows are shared out over the threads; each row is computed by one
// thread in a fixed order, so results do not depend on the thread count.
#include "backend/cpu/cpu_backend.hpp"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>

#include "backend/cpu/activation_kernels.hpp"
#include "backend/cpu/attention_decode.hpp"
#include "backend/cpu/matmul.hpp"
#include "backend/cpu/rotation.hpp"
#include "backend/cpu/tile_kernels.hpp"
#include "core/error.hpp"

namespace kvbench {
namespace {

constexpr std::size_t kAlignment = 64;

class HostTable final : public EmbeddingTable {
 public:
  explicit HostTable(TensorView rows) : rows_(std::move(rows)) {}
  void copy_row(std::int64_t row, float* out) const {
    const std::int64_t width = rows_.shape[1];
    to_floats(rows_, row * width, width, out);
  }
  std::int64_t width() const { return rows_.shape[1]; }

 private:
  TensorView rows_;
};

void layer_norm_row(const NormArgs& args, const float* x, float* out) {
  const std::int64_t n = args.width;
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(n);
  double squares = 0.0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t i = 0; i < n; ++i) {
    const double centred = static_cast<double>(x[i]) - mean;
    squares += centred * centred;
  }
  const double variance = squares / static_cast<double>(n);
  const auto factor = static_cast<float>(1.0 / std::sqrt(variance + args.epsilon));
  const auto centre = static_cast<float>(mean);
  for (std::int64_t i = 0; i < n; ++i) {
    const float bias = args.bias != nullptr ? args.bias[i] : 0.0f;
    out[i] = (x[i] - centre) * factor * args.weight[i] + bias;
  }
}

// One normed row in f32; x may be out.
void norm_row(const NormArgs& args, const float* x, float* out) {
  switch (args.kind) {
    case NormKind::rms: {
      const double mean_square = static_cast<double>(tile::sum_of_squares(x, args.width)) /
                                 static_cast<double>(args.width);
      const auto factor = static_cast<float>(1.0 / std::sqrt(mean_square + args.epsilon));
      return tile::scale_by(x, args.weight, factor, args.width, out);
    }
    case NormKind::layer:
      return layer_norm_row(args, x, out);
    case NormKind::none:
      if (x != out) std::copy_n(x, args.width, out);
      return;
  }
}

void store_row(const float* row, std::int64_t n, DType dtype, void* out, std::int64_t offset) {
  if (dtype == DType::f32) {
    std::memcpy(static_cast<float*>(out) + offset, row,
                static_cast<std::size_t>(n) * sizeof(float));
  } else {
    tile::floats_to_bf16(row, n, static_cast<std::uint16_t*>(out) + offset);
  }
}

}  // namespace

CpuBackend::CpuBackend(int threads)
    : threads_(threads),
      engine_(dnnl::engine::kind::cpu, 0),
      stream_(engine_),
      attention_scratch_(static_cast<std::size_t>(threads)),
      weights_tiles_(static_cast<std::size_t>(threads)),
      decode_parts_(static_cast<std::size_t>(threads)),
      row_scratch_(static_cast<std::size_t>(threads)) {
  omp_set_num_threads(threads);
  omp_set_max_active_levels(1);  // see thread_index()
}

Buffer CpuBackend::allocate(std::size_t bytes, MemoryMeter* meter) {
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(kAlignment, rounded == 0 ? kAlignment : rounded);
  if (data == nullptr) device_error("out of memory: {} bytes asked for", bytes);
  std::memset(data, 0, bytes);
  return Buffer(
      data, bytes, [](void* p) { std::free(p); }, meter);
}

void CpuBackend::copy_in(void* destination, const void* host_source, std::size_t bytes) {
  if (bytes > 0) std::memcpy(destination, host_source, bytes);
}

void CpuBackend::copy_out(void* host_destination, const void* source, std::size_t bytes) {
  if (bytes > 0) std::memcpy(host_destination, source, bytes);
}

void CpuBackend::copy_rows(void* destination, const void* source, std::size_t bytes) {
  if (bytes > 0) std::memcpy(destination, source, bytes);
}

std::unique_ptr<LinearWeight> CpuBackend::make_linear(std::span<const TensorView> parts,
                                                      std::span<const TensorView> biases,
                                                      DType compute) {
  return std::make_unique<PackedMatrix>(engine_, arena_, parts, biases, compute);
}

std::unique_ptr<EmbeddingTable> CpuBackend::make_table(const TensorView& rows) {
  return std::make_unique<HostTable>(rows);
}

void CpuBackend::embed(const EmbeddingTable& table, std::span<const std::int32_t> ids, float* out) {
  const auto& rows = static_cast<const HostTable&>(table);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    rows.copy_row(ids[i], out + static_cast<std::int64_t>(i) * rows.width());
  }
}

void CpuBackend::norm(const NormArgs& args) {
  KVB_CHECK(!args.accumulate || args.out_dtype == DType::f32, "norms add to f32 only");
#pragma omp parallel for num_threads(threads_) if (args.n_rows >= 2 * threads_)
  for (std::int64_t r = 0; r < args.n_rows; ++r) {
    const float* x = args.x + r * args.x_stride;
    const std::int64_t offset = r * args.out_stride;
    if (args.out_dtype == DType::f32 && !args.accumulate) {
      norm_row(args, x, static_cast<float*>(args.out) + offset);
      continue;
    }
    auto& row = row_scratch_[static_cast<std::size_t>(thread_index())];
    row.resize(std::max(row.size(), static_cast<std::size_t>(args.width)));
    norm_row(args, x, row.data());
    if (args.accumulate) {
      float* out = static_cast<float*>(args.out) + offset;
      for (std::int64_t i = 0; i < args.width; ++i) out[i] += row[static_cast<std::size_t>(i)];
    } else {
      store_row(row.data(), args.width, args.out_dtype, args.out, offset);
    }
  }
}

void CpuBackend::linear(const LinearWeight& weight, const LinearArgs& args) {
  static_cast<const PackedMatrix&>(weight).multiply(stream_, args, threads_, row_scratch_.front());
  stream_.wait();
  if (args.clip <= 0.0f) return;
  const std::int64_t n = args.n_rows * weight.out_features();
  for (std::int64_t i = 0; i < n; ++i) args.y[i] = std::clamp(args.y[i], -args.clip, args.clip);
}

void CpuBackend::gated_activation(const GatedActivationArgs& args) {
  const std::int64_t in_width = args.gated ? 2 * args.width : args.width;
  const auto compute_row = [&](const float* x, float* out) {
    if (args.gated) {
      tile::gate(args.activation, x, x + args.width, args.width, out);
    } else {
      tile::activate(args.activation, x, args.width, out);
    }
  };
#pragma omp parallel for num_threads(threads_) if (args.n_rows >= 2 * threads_)
  for (std::int64_t r = 0; r < args.n_rows; ++r) {
    const float* x = args.gate_up + r * in_width;
    const std::int64_t offset = r * args.width;
    if (args.out_dtype == DType::f32) {
      compute_row(x, static_cast<float*>(args.out) + offset);
      continue;
    }
    auto& row = row_scratch_[static_cast<std::size_t>(thread_index())];
    row.resize(std::max(row.size(), static_cast<std::size_t>(args.width)));
    compute_row(x, row.data());
    store_row(row.data(), args.width, args.out_dtype, args.out, offset);
  }
}

void CpuBackend::gather_rows(const GatherRowsArgs& args) {
  for (std::int64_t r = 0; r < args.n_rows; ++r) {
    std::memcpy(static_cast<std::byte*>(args.out) + static_cast<std::size_t>(r) * args.row_bytes,
                static_cast<const std::byte*>(args.x) +
                    static_cast<std::size_t>(args.rows[r]) * args.row_bytes,
                args.row_bytes);
  }
}

void CpuBackend::add_rows(const AddRowsArgs& args) {
  for (std::int64_t r = 0; r < args.n_rows; ++r) {
    const float* x = args.x + r * args.width;
    float* y = args.y + args.rows[r] * args.width;
    for (std::int64_t i = 0; i < args.width; ++i) y[i] += args.weights[r] * x[i];
  }
}

void CpuBackend::scale(float* x, std::int64_t n, float factor) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
}

void CpuBackend::kv_append(const KvAppendArgs& args) {
  const auto n_kv_heads = static_cast<std::int64_t>(args.k_rows.size());
  const std::int64_t d = args.head_dim;
#pragma omp parallel for num_threads(threads_) if (args.n_tokens >= 2 * threads_)
  for (std::int64_t t = 0; t < args.n_tokens; ++t) {
    auto& row = row_scratch_[static_cast<std::size_t>(thread_index())];
    row.resize(std::max(row.size(), static_cast<std::size_t>(d)));
    for (std::int64_t h = 0; h < n_kv_heads; ++h) {
      const auto head = static_cast<std::size_t>(h);
      std::memcpy(row.data(), args.k + t * args.stride + h * d,
                  static_cast<std::size_t>(d) * sizeof(float));
      rotate_row(row.data(), args.rope, t, args.rope_shape);
      store_row(row.data(), d, args.kv_dtype, args.k_rows[head], t * d);
      store_row(args.v + t * args.stride + h * d, d, args.kv_dtype, args.v_rows[head], t * d);
    }
  }
}

void CpuBackend::move_rows(std::span<const RowMove> moves, std::size_t row_bytes) {
  for (const RowMove& move : moves) {
    auto* slab = static_cast<std::byte*>(move.slab);
    std::memmove(slab + static_cast<std::size_t>(move.dst_row) * row_bytes,
                 slab + static_cast<std::size_t>(move.src_row) * row_bytes,
                 static_cast<std::size_t>(move.n_rows) * row_bytes);
  }
}

void CpuBackend::quantise(std::span<const QuantiseCall> calls) {
  for (const QuantiseCall& call : calls) {
    const std::int64_t row = quantise_rows(call.args);
    if (row < 0) continue;
    *call.failure = std::min(*call.failure, call.first_id + static_cast<std::uint32_t>(row));
  }
}

void CpuBackend::attention(const AttentionArgs& args) {
  if (decodes(args)) {
    cpu_attention_decode(args, attention_scratch_,
                         decode_parts_[static_cast<std::size_t>(thread_index())]);
  } else {
    cpu_attention(args, attention_scratch_);
  }
}

void CpuBackend::attention_weights(const AttentionWeightsArgs& args) {
  if (decodes(args.attention)) {
    cpu_attention_weights_decode(args, attention_scratch_);
  } else {
    cpu_attention_weights(args, attention_scratch_,
                          weights_tiles_[static_cast<std::size_t>(thread_index())]);
  }
}

void CpuBackend::nll(const NllArgs& args) {
  constexpr std::int64_t kRowBlock = 256;
  for (std::int64_t begin = 0; begin < args.n_rows; begin += kRowBlock) {
    const std::int64_t n = std::min(kRowBlock, args.n_rows - begin);
    nll_rows(args, begin, n);
  }
}

// Rows [begin, begin + n): the vocabulary passes by in blocks, folded into a log-sum-exp per row.
void CpuBackend::nll_rows(const NllArgs& args, std::int64_t begin, std::int64_t n) {
  folded_.assign(static_cast<std::size_t>(n), {-std::numeric_limits<float>::infinity(), 0.0});
  target_logits_.assign(static_cast<std::size_t>(n), 0.0);
  std::int64_t first_id = 0;
  for (const LinearWeight* block : args.vocabulary) {
    const std::int64_t width = block->out_features();
    const auto& matrix = static_cast<const PackedMatrix&>(*block);
    logits_.resize(std::max(logits_.size(), static_cast<std::size_t>(n * width)));
    const auto* hidden =
        static_cast<const std::byte*>(args.hidden) +
        static_cast<std::size_t>(begin * block->in_features()) * dtype_size(matrix.compute());
    linear(*block, {.x = hidden, .y = logits_.data(), .n_rows = n, .accumulate = false});
#pragma omp parallel for num_threads(threads_) if (n >= threads_)
    for (std::int64_t r = 0; r < n; ++r) {
      float* row = logits_.data() + r * width;
      if (args.logit_scale != 1.0) {
        for (std::int64_t i = 0; i < width; ++i) row[i] *= static_cast<float>(args.logit_scale);
      }
      if (args.logit_cap > 0.0) {
        tile::soft_cap(row, width, static_cast<float>(args.logit_cap));
      }
      const auto index = static_cast<std::size_t>(r);
      tile::fold_logits(row, width, folded_[index]);
      const std::int64_t target = args.targets[begin + r] - first_id;
      if (target >= 0 && target < width) target_logits_[index] = static_cast<double>(row[target]);
    }
    first_id += width;
  }
  for (std::int64_t r = 0; r < n; ++r) {
    const auto& f = folded_[static_cast<std::size_t>(r)];
    args.nll[begin + r] = static_cast<double>(f.maximum) + std::log(f.sum) -
                          target_logits_[static_cast<std::size_t>(r)];
  }
}

void CpuBackend::for_each(std::int64_t n, const std::function<void(std::int64_t)>& work) {
  // Fewer than there are threads: these share the loops within each.
  if (threads_ == 1 || n < threads_) return Backend::for_each(n, work);
  std::exception_ptr failure;
  std::int64_t failed = n;
#pragma omp parallel for schedule(dynamic) num_threads(threads_)
  for (std::int64_t i = 0; i < n; ++i) {
    try {
      work(i);
    } catch (...) {
#pragma omp critical(kvbench_for_each)
      if (i < failed) {
        failed = i;
        failure = std::current_exception();
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace kvbench
