// Jobs of the kernels that make codes and read them, and the layout of f32 copies.
#include "backend/cuda/quantised_storage.hpp"

#include <algorithm>

#include "backend/cuda/kernel_arguments.hpp"
#include "kernels/quantise.hpp"

namespace kvbench {
namespace {

// Along rows, groups whose entries are all there need no list of their ends.
bool has_cut_groups(const QuantisedRows& rows) {
  return rows.format.along_rows && rows.n_groups * rows.format.group != rows.n_rows;
}

// Floats of one side's copy; the next one begins aligned to 16 bytes.
std::int64_t padded_floats(std::int64_t length, std::int64_t head_dim) {
  return (length * head_dim + 3) / 4 * 4;
}

}  // namespace

std::size_t staged_coded_bytes(std::span<const KvHeadView> kv) {
  std::size_t bytes = 0;
  for (const KvHeadView& head : kv) {
    for (const QuantisedRows* rows : {&head.quantised_keys, &head.quantised_values}) {
      if (!has_cut_groups(*rows)) continue;
      bytes +=
          static_cast<std::size_t>(rows->n_groups) * sizeof(std::int32_t) + Staging::kArrayPadding;
    }
  }
  return bytes;
}

CodedRows stage_coded(Staging::Block& block, const QuantisedRows& rows) {
  const std::int32_t* ends = nullptr;
  if (has_cut_groups(rows)) {
    auto* staged = block.add<std::int32_t>(rows.n_groups);
    std::copy_n(rows.group_ends, rows.n_groups, staged);
    ends = block.on_device(staged);
  }
  return {.codes = rows.codes,
          .parameters = reinterpret_cast<const __half*>(rows.parameters),
          .group_ends = ends,
          .n_rows = rows.n_rows,
          .n_groups = static_cast<int>(rows.n_groups),
          .layout = quant_layout(rows.format)};
}

bool partly_quantised(std::span<const KvHeadView> kv) {
  return std::any_of(kv.begin(), kv.end(), [](const KvHeadView& head) {
    return head.quantised_keys.n_rows > 0 || head.quantised_values.n_rows > 0;
  });
}

void queue_quantise(std::span<const QuantiseCall> calls, Staging& staging, cudaStream_t stream) {
  const auto n = static_cast<std::int64_t>(calls.size());
  Staging::Block block = staging.open(calls.size() * sizeof(QuantiseJob) + Staging::kArrayPadding);
  auto* jobs = block.add<QuantiseJob>(n);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const QuantiseArgs& args = calls[i].args;
    KVB_CHECK(args.dtype == calls[0].args.dtype, "rows of several dtypes");
    jobs[i] = {.rows = args.rows,
               .n_rows = args.n_rows,
               .width = static_cast<int>(args.width),
               .layout = quant_layout(args.format),
               .codes = static_cast<std::uint8_t*>(args.codes),
               .parameters = static_cast<__half*>(args.parameters),
               .failure = calls[i].failure,
               .first_id = calls[i].first_id};
  }
  block.send();
  quantise({.jobs = block.on_device(jobs),
            .host_jobs = jobs,
            .n_jobs = static_cast<int>(n),
            .rows_bf16 = n > 0 && is_bf16(calls[0].args.dtype)},
           stream);
}

AttentionArgs KvWidening::over_rows(const AttentionArgs& args) {
  std::int64_t floats = 0;
  std::int64_t longest = 0;
  for (const KvHeadView& head : args.kv) {
    floats += 2 * padded_floats(head.length, args.head_dim);
    longest = std::max(longest, head.length);
  }
  float* out = rows_.get<float>(static_cast<std::size_t>(floats));
  const auto n_sides = static_cast<std::int64_t>(2 * args.kv.size());
  Staging::Block block = staging_.open(staged_coded_bytes(args.kv) +
                                       static_cast<std::size_t>(n_sides) * sizeof(StoredSide) +
                                       Staging::kArrayPadding);
  auto* sides = block.add<StoredSide>(n_sides);
  StoredSide* side = sides;
  views_.clear();
  for (const KvHeadView& head : args.kv) {
    const std::int64_t side_floats = padded_floats(head.length, args.head_dim);
    *side++ = {stage_coded(block, head.quantised_keys), head.keys, head.length, out};
    *side++ = {stage_coded(block, head.quantised_values), head.values, head.length,
               out + side_floats};
    views_.push_back({out, out + side_floats, head.positions, head.length});
    out += 2 * side_floats;
  }
  block.send();
  dequantise({.sides = block.on_device(sides),
              .n_sides = static_cast<int>(n_sides),
              .longest = longest,
              .width = static_cast<int>(args.head_dim),
              .rows_bf16 = is_bf16(args.kv_dtype)},
             stream_);
  AttentionArgs wide = args;
  wide.kv = views_;
  wide.kv_dtype = DType::f32;
  return wide;
}

}  // namespace kvbench
