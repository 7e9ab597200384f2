// Decoding attention. A task is one part of one head's entries; every part leaves its maximum, sum
// and weighted values, as online softmax does.
#include "backend/cpu/attention_decode.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/activation_kernels.hpp"
#include "backend/cpu/decode_kernels.hpp"
#include "backend/cpu/rotation.hpp"
#include "backend/cpu/tile_kernels.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kPartSlots = 512;  // multiple of kKeyBlock

// What one part leaves of each query head of the group: [maximum, sum, output [head_dim]].
std::int64_t part_size(const AttentionArgs& args) {
  return args.head_dim + 2;
}

std::int64_t group_of(const AttentionArgs& args) {
  return args.n_heads / static_cast<std::int64_t>(args.kv.size());
}

// The query heads that share a KV head, rotated and scaled: out [group, head_dim].
void gather_rows(const AttentionArgs& args, std::int64_t kv_head, const RopeRows& rope,
                 std::vector<float>& out) {
  const std::int64_t group = group_of(args);
  const std::int64_t n = group * args.head_dim;
  out.resize(static_cast<std::size_t>(n));
  std::copy_n(args.q + kv_head * n, n, out.data());
  for (std::int64_t g = 0; g < group; ++g) {
    rotate_row(out.data() + g * args.head_dim, rope, 0, args.rope_shape);
  }
  for (float& value : out) value *= args.scale;
}

// Keys [slot, slot + n): as they are stored where nothing is to be done to them.
tile::StoredRows key_rows(const AttentionArgs& args, const KvHeadView& kv, std::int64_t slot,
                          std::int64_t n, float* scratch) {
  const bool as_stored = args.slot_rope.cosine == nullptr && kv.quantised_keys.n_rows == 0;
  if (!as_stored) {
    return {load_keys(args, kv, slot, n, scratch), DType::f32, n, args.head_dim};
  }
  const auto offset = static_cast<std::size_t>(slot * args.head_dim) * dtype_size(args.kv_dtype);
  return {static_cast<const std::byte*>(kv.keys) + offset, args.kv_dtype, n, args.head_dim};
}

tile::StoredRows value_rows(const AttentionArgs& args, const KvHeadView& kv, std::int64_t slot,
                            std::int64_t n, float* scratch) {
  if (kv.quantised_values.n_rows > 0) {
    return {load_values(args, kv, slot, n, scratch), DType::f32, n, args.head_dim};
  }
  const auto offset = static_cast<std::size_t>(slot * args.head_dim) * dtype_size(args.kv_dtype);
  return {static_cast<const std::byte*>(kv.values) + offset, args.kv_dtype, n, args.head_dim};
}

void score_block(const AttentionArgs& args, const KvHeadView& kv, std::int64_t slot, std::int64_t n,
                 const std::vector<float>& q, AttentionScratch& s) {
  const std::int64_t group = group_of(args);
  tile::decode_scores(key_rows(args, kv, slot, n, s.keys.data()), q.data(), group, s.scores.data(),
                      kKeyBlock);
  if (args.logit_cap <= 0.0f) return;
  for (std::int64_t g = 0; g < group; ++g) {
    tile::soft_cap(s.scores.data() + g * kKeyBlock, n, args.logit_cap);
  }
}

// Slots [first, last), block by block, into `part` [group, part_size].
void attend(const AttentionArgs& args, const KvHeadView& kv, std::int64_t first, std::int64_t last,
            const std::vector<float>& q, AttentionScratch& s, float* part) {
  const std::int64_t group = group_of(args);
  const std::int64_t d = args.head_dim;
  for (std::int64_t slot = first; slot < last; slot += kKeyBlock) {
    const std::int64_t n = std::min(kKeyBlock, last - slot);
    score_block(args, kv, slot, n, q, s);
    for (std::int64_t g = 0; g < group; ++g) {
      float* state = part + g * part_size(args);
      tile::decode_softmax(s.scores.data() + g * kKeyBlock, n, state[0], state[1],
                           s.output.data() + g * d, d);
    }
    tile::decode_values(value_rows(args, kv, slot, n, s.values.data()), s.scores.data(), group,
                        kKeyBlock, s.output.data());
  }
}

void reserve_scratch(const AttentionArgs& args, AttentionScratch& s) {
  const auto group = static_cast<std::size_t>(group_of(args));
  const auto d = static_cast<std::size_t>(args.head_dim);
  const auto block = static_cast<std::size_t>(kKeyBlock);
  s.keys.resize(block * d);
  s.values.resize(block * d);
  s.scores.resize(block * group);
  s.output.assign(group * d, 0.0f);
}

// Part `index` of one head: sinks belong to the first one.
void run_part(const AttentionArgs& args, std::int64_t kv_head, std::int64_t index,
              AttentionScratch& s, float* part) {
  const Tile tile = make_tile(args, kv_head, 0);
  find_visible(tile, s.visible);
  const VisibleSlots& visible = s.visible.front();
  reserve_scratch(args, s);
  const std::int64_t group = group_of(args);
  for (std::int64_t g = 0; g < group; ++g) {
    // Off by one: as if a key of score 0 and value 0 had been seen already.
    const bool seen = args.off_by_one && index == 0;
    part[g * part_size(args)] = seen ? 0.0f : -std::numeric_limits<float>::infinity();
    part[g * part_size(args) + 1] = seen ? 1.0f : 0.0f;
  }
  if (index == 0 && visible.sink_first < visible.sink_last) {
    const bool own_rotation = args.q_rope_sink.cosine != nullptr;
    gather_rows(args, kv_head, own_rotation ? args.q_rope_sink : args.q_rope, s.q);
    attend(args, tile.kv(), visible.sink_first, visible.sink_last, s.q, s, part);
  }
  gather_rows(args, kv_head, args.q_rope, s.q);
  const std::int64_t first = visible.first + index * kPartSlots;
  attend(args, tile.kv(), first, std::min(first + kPartSlots, visible.last), s.q, s, part);
  for (std::int64_t g = 0; g < group; ++g) {
    std::copy_n(s.output.data() + g * args.head_dim, args.head_dim, part + g * part_size(args) + 2);
  }
}

// The parts of one query head, `stride` apart, joined into its row of `out`.
void join_parts(const AttentionArgs& args, std::int64_t head, const float* parts,
                std::int64_t n_parts, std::int64_t stride, std::vector<float>& row) {
  float maximum = -std::numeric_limits<float>::infinity();
  for (std::int64_t p = 0; p < n_parts; ++p) maximum = std::max(maximum, parts[p * stride]);
  const bool empty = maximum == -std::numeric_limits<float>::infinity();
  row.assign(static_cast<std::size_t>(args.head_dim), 0.0f);
  float total = 0.0f;
  for (std::int64_t p = 0; p < n_parts; ++p) {
    const float* part = parts + p * stride;
    const float share = empty ? 1.0f : std::exp(part[0] - maximum);
    total += part[1] * share;
    for (std::int64_t i = 0; i < args.head_dim; ++i) {
      row[static_cast<std::size_t>(i)] += part[2 + i] * share;
    }
  }
  const float inverse = total == 0.0f ? 0.0f : 1.0f / total;  // a NaN stays one
  for (float& value : row) value *= inverse;
  if (args.log_sum_exp != nullptr) args.log_sum_exp[head] = maximum + std::log(total);
  if (args.out_dtype == DType::f32) {
    std::copy_n(row.data(), args.head_dim, static_cast<float*>(args.out) + head * args.head_dim);
  } else {
    tile::floats_to_bf16(row.data(), args.head_dim,
                         static_cast<std::uint16_t*>(args.out) + head * args.head_dim);
  }
}

std::int64_t longest_head(const AttentionArgs& args) {
  std::int64_t longest = 0;
  for (const KvHeadView& kv : args.kv) longest = std::max(longest, kv.length);
  return longest;
}

}  // namespace

bool decodes(const AttentionArgs& args) {
  return args.n_tokens == 1 && args.head_dim % tile::kDecodeStep == 0 &&
         args.alibi_slopes == nullptr;
}

void cpu_attention_decode(const AttentionArgs& args, std::vector<AttentionScratch>& scratch,
                          std::vector<float>& parts) {
  const auto n_kv_heads = static_cast<std::int64_t>(args.kv.size());
  const std::int64_t n_parts =
      std::max<std::int64_t>(1, (longest_head(args) + kPartSlots - 1) / kPartSlots);
  const std::int64_t group = group_of(args);
  const std::int64_t size = group * part_size(args);
  parts.resize(std::max(parts.size(), static_cast<std::size_t>(n_kv_heads * n_parts * size)));
  [[maybe_unused]] const int n_threads = static_cast<int>(scratch.size());
#pragma omp parallel for schedule(dynamic) num_threads(n_threads) if (n_kv_heads * n_parts > 1)
  for (std::int64_t task = 0; task < n_kv_heads * n_parts; ++task) {
    run_part(args, task / n_parts, task % n_parts,
             scratch[static_cast<std::size_t>(thread_index())], parts.data() + task * size);
  }
  for (std::int64_t head = 0; head < args.n_heads; ++head) {
    const float* first =
        parts.data() + head / group * n_parts * size + head % group * part_size(args);
    join_parts(args, head, first, n_parts, size,
               scratch[static_cast<std::size_t>(thread_index())].keys);
  }
}

void cpu_attention_weights_decode(const AttentionWeightsArgs& args,
                                  std::vector<AttentionScratch>& scratch) {
  const AttentionArgs& attention = args.attention;
  const auto n_kv_heads = static_cast<std::int64_t>(attention.kv.size());
  const std::int64_t group = group_of(attention);
  const std::int64_t n_parts = (longest_head(attention) + kPartSlots - 1) / kPartSlots;
  [[maybe_unused]] const int n_threads = static_cast<int>(scratch.size());
#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
  for (std::int64_t task = 0; task < n_kv_heads * n_parts; ++task) {
    const std::int64_t kv_head = task / n_parts;
    AttentionScratch& s = scratch[static_cast<std::size_t>(thread_index())];
    const Tile tile = make_tile(attention, kv_head, 0);
    find_visible(tile, s.visible);
    const VisibleSlots& visible = s.visible.front();
    reserve_scratch(attention, s);
    gather_rows(attention, kv_head, attention.q_rope, s.q);
    const std::int64_t begin = task % n_parts * kPartSlots;
    const std::int64_t end = std::min(begin + kPartSlots, tile.kv().length);
    for (std::int64_t slot = begin; slot < end; slot += kKeyBlock) {
      const std::int64_t n = std::min(kKeyBlock, end - slot);
      score_block(attention, tile.kv(), slot, n, s.q, s);
      for (std::int64_t g = 0; g < group; ++g) {
        const std::int64_t head = kv_head * group + g;
        float* row = s.scores.data() + g * kKeyBlock;
        tile::decode_weights(row, n, args.log_sum_exp[head]);
        float* out = args.weights + head * args.row_stride + slot;
        for (std::int64_t i = 0; i < n; ++i) {
          const bool seen = slot + i >= visible.first && slot + i < visible.last;
          out[i] = seen ? row[i] : 0.0f;
        }
      }
    }
  }
}

}  // namespace kvbench
