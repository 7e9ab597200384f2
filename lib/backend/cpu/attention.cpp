// Blocked attention. A task is one KV head and a tile of tokens; the query heads that share the
// KV head lie side by side as the columns of the tile, so that keys are read once for the group.
// Scores are kept transposed, [keys, queries]: the softmax then runs down the columns and needs
// no shuffles. Masks are slot ranges per query, because slots are ordered by position.
#include "backend/cpu/attention.hpp"

#include <algorithm>
#include <limits>

#include "backend/cpu/rotation.hpp"
#include "backend/cpu/tile_kernels.hpp"
#include "core/error.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kKeyBlock = 64;
constexpr std::int64_t kTileColumns = 128;  // queries per tile, all heads of the group counted

struct Tile {
  const AttentionArgs& args;
  std::int64_t kv_head;
  std::int64_t group;  // query heads per KV head
  std::int64_t first_token;
  std::int64_t n_tokens;
  std::int64_t n_columns;  // n_tokens * group, padded
  std::int64_t n_sink_slots;

  const KvHeadView& kv() const { return args.kv[static_cast<std::size_t>(kv_head)]; }
};

VisibleSlots visible_slots(const AttentionArgs& args, const KvHeadView& kv, std::int64_t token,
                           std::int64_t n_sink_slots) {
  const std::int32_t* begin = kv.positions;
  const std::int32_t* end = kv.positions + kv.length;
  const std::int64_t position = args.q_positions[token];
  const std::int64_t own_slot = kv.length - args.n_tokens + token;
  const bool by_slot = args.slot_rope.cosine != nullptr;

  std::int64_t last = std::upper_bound(begin, end, position) - begin;
  std::int64_t first = 0;
  if (args.recent < kUnlimited) {
    first = std::lower_bound(begin, end, position - args.recent) - begin;
  }
  std::int64_t sink_first = 0;
  if (args.window < kUnlimited) {
    const std::int64_t in_window =
        by_slot ? own_slot - args.window + 1
                : std::lower_bound(begin, end, position - args.window + 1) - begin;
    first = std::max(first, in_window);
    const std::int64_t sink_position =
        args.q_sink_positions != nullptr ? args.q_sink_positions[token] : position;
    sink_first = std::max<std::int64_t>(0, sink_position - args.window + 1);
  }
  const std::int64_t sink_last = std::min(n_sink_slots, last);
  first = std::max(first, n_sink_slots);
  last = std::max(last, first);
  return {std::min(sink_first, sink_last), sink_last, first, last};
}

// Queries of the tile, rotated and scaled, as columns: out [head_dim, n_columns].
void gather_queries(const Tile& tile, const RopeRows& rope, std::vector<float>& row,
                    std::vector<float>& out) {
  const AttentionArgs& args = tile.args;
  out.assign(static_cast<std::size_t>(args.head_dim * tile.n_columns), 0.0f);
  for (std::int64_t t = 0; t < tile.n_tokens; ++t) {
    const std::int64_t token = tile.first_token + t;
    for (std::int64_t g = 0; g < tile.group; ++g) {
      const float* q =
          args.q + token * args.q_stride + (tile.kv_head * tile.group + g) * args.head_dim;
      std::copy_n(q, args.head_dim, row.data());
      rotate_row(row.data(), rope, token, args.rope_shape);
      float* column = out.data() + t * tile.group + g;
      for (std::int64_t i = 0; i < args.head_dim; ++i) {
        column[i * tile.n_columns] = row[static_cast<std::size_t>(i)] * args.scale;
      }
    }
  }
}

// Rows [slot, slot + n) as dense f32: in place when they are stored so, else in `scratch`.
const float* widen_rows(const void* rows, DType dtype, std::int64_t slot, std::int64_t n,
                        std::int64_t width, bool copy, std::vector<float>& scratch) {
  if (dtype == DType::f32) {
    const float* stored = static_cast<const float*>(rows) + slot * width;
    if (!copy) return stored;
    std::copy_n(stored, n * width, scratch.data());
  } else {
    tile::bf16_to_floats(static_cast<const std::uint16_t*>(rows) + slot * width, n * width,
                         scratch.data());
  }
  return scratch.data();
}

// One block of keys [slot, slot + n): scores, softmax step, weighted values.
void attend_block(const Tile& tile, bool sinks, std::int64_t slot, std::int64_t n,
                  const std::vector<float>& q, AttentionScratch& s) {
  const AttentionArgs& args = tile.args;
  const std::int64_t d = args.head_dim;
  const bool rotate = args.slot_rope.cosine != nullptr;
  const float* keys = widen_rows(tile.kv().keys, args.kv_dtype, slot, n, d, rotate, s.keys);
  if (rotate) {
    for (std::int64_t i = 0; i < n; ++i) {
      rotate_row(s.keys.data() + i * d, args.slot_rope, slot + i, args.rope_shape);
    }
  }
  tile::product({.a = keys,
                 .a_row = d,
                 .a_inner = 1,
                 .b = q.data(),
                 .c = s.scores.data(),
                 .n_rows = n,
                 .n_inner = d,
                 .n_columns = tile.n_columns,
                 .accumulate = false});

  bool masked = false;
  for (std::int64_t t = 0; t < tile.n_tokens; ++t) {
    const VisibleSlots& v = s.visible[static_cast<std::size_t>(t)];
    const std::int64_t first = (sinks ? v.sink_first : v.first) - slot;
    const std::int64_t last = (sinks ? v.sink_last : v.last) - slot;
    masked = masked || first > 0 || last < n;
    for (std::int64_t g = 0; g < tile.group; ++g) {
      const auto column = static_cast<std::size_t>(t * tile.group + g);
      s.first_key[column] = static_cast<std::int32_t>(std::clamp<std::int64_t>(first, 0, n));
      s.last_key[column] = static_cast<std::int32_t>(std::clamp<std::int64_t>(last, 0, n));
    }
  }
  tile::softmax_step({.scores = s.scores.data(),
                      .first_key = masked ? s.first_key.data() : nullptr,
                      .last_key = masked ? s.last_key.data() : nullptr,
                      .maximum = s.maximum.data(),
                      .sum = s.sum.data(),
                      .output = s.output.data(),
                      .n_keys = n,
                      .n_queries = tile.n_columns,
                      .n_output = d});
  const float* values = widen_rows(tile.kv().values, args.kv_dtype, slot, n, d, false, s.values);
  tile::product({.a = values,
                 .a_row = 1,
                 .a_inner = d,
                 .b = s.scores.data(),
                 .c = s.output.data(),
                 .n_rows = d,
                 .n_inner = n,
                 .n_columns = tile.n_columns,
                 .accumulate = true});
}

void attend_segment(const Tile& tile, bool sinks, const std::vector<float>& q,
                    AttentionScratch& scratch) {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = 0;
  for (const VisibleSlots& v : scratch.visible) {
    const std::int64_t first = sinks ? v.sink_first : v.first;
    const std::int64_t last = sinks ? v.sink_last : v.last;
    if (first == last) continue;
    begin = std::min(begin, first);
    end = std::max(end, last);
  }
  for (std::int64_t slot = begin; slot < end; slot += kKeyBlock) {
    attend_block(tile, sinks, slot, std::min(kKeyBlock, end - slot), q, scratch);
  }
}

void write_output(const Tile& tile, const AttentionScratch& scratch, std::vector<float>& row) {
  const AttentionArgs& args = tile.args;
  for (std::int64_t t = 0; t < tile.n_tokens; ++t) {
    for (std::int64_t g = 0; g < tile.group; ++g) {
      const std::int64_t column = t * tile.group + g;
      const std::int64_t head = tile.kv_head * tile.group + g;
      const std::int64_t offset = ((tile.first_token + t) * args.n_heads + head) * args.head_dim;
      const float total = scratch.sum[static_cast<std::size_t>(column)];
      const float inverse = total > 0.0f ? 1.0f / total : 0.0f;
      for (std::int64_t i = 0; i < args.head_dim; ++i) {
        row[static_cast<std::size_t>(i)] =
            scratch.output[static_cast<std::size_t>(i * tile.n_columns + column)] * inverse;
      }
      if (args.out_dtype == DType::f32) {
        std::copy_n(row.data(), args.head_dim, static_cast<float*>(args.out) + offset);
      } else {
        tile::floats_to_bf16(row.data(), args.head_dim,
                             static_cast<std::uint16_t*>(args.out) + offset);
      }
    }
  }
}

void run_tile(Tile& tile, AttentionScratch& s) {
  const AttentionArgs& args = tile.args;
  const KvHeadView& kv = tile.kv();
  if (args.sinks > 0) {
    tile.n_sink_slots =
        std::lower_bound(kv.positions, kv.positions + kv.length, args.sinks) - kv.positions;
  }
  s.visible.clear();
  for (std::int64_t t = 0; t < tile.n_tokens; ++t) {
    s.visible.push_back(visible_slots(args, kv, tile.first_token + t, tile.n_sink_slots));
  }
  const auto columns = static_cast<std::size_t>(tile.n_columns);
  const auto block = static_cast<std::size_t>(kKeyBlock);
  const auto d = static_cast<std::size_t>(args.head_dim);
  s.keys.resize(block * d);
  s.values.resize(block * d);
  s.scores.resize(block * columns);
  s.output.assign(d * columns, 0.0f);
  s.maximum.assign(columns, -std::numeric_limits<float>::infinity());
  s.sum.assign(columns, 0.0f);
  // Padding columns see everything; their results are not written.
  s.first_key.assign(columns, 0);
  s.last_key.assign(columns, kKeyBlock);

  gather_queries(tile, args.q_rope, s.keys, s.q);
  if (tile.n_sink_slots > 0) {
    const bool own_rotation = args.q_rope_sink.cosine != nullptr;
    if (own_rotation) gather_queries(tile, args.q_rope_sink, s.keys, s.q_sink);
    attend_segment(tile, true, own_rotation ? s.q_sink : s.q, s);
  }
  attend_segment(tile, false, s.q, s);
  write_output(tile, s, s.keys);
}

}  // namespace

void cpu_attention(const AttentionArgs& args, std::vector<AttentionScratch>& scratch) {
  const auto n_kv_heads = static_cast<std::int64_t>(args.kv.size());
  KVB_CHECK(n_kv_heads > 0 && args.n_heads % n_kv_heads == 0, "{} query heads over {} KV heads",
            args.n_heads, n_kv_heads);
  const std::int64_t group = args.n_heads / n_kv_heads;
  const std::int64_t tokens_per_tile = std::max<std::int64_t>(1, kTileColumns / group);
  const std::int64_t tiles_per_head = (args.n_tokens + tokens_per_tile - 1) / tokens_per_tile;
  const std::int64_t n_tasks = tiles_per_head * n_kv_heads;
  const int n_threads = static_cast<int>(scratch.size());

#pragma omp parallel for schedule(dynamic) num_threads(n_threads) if (n_tasks > 1)
  for (std::int64_t task = 0; task < n_tasks; ++task) {
    const std::int64_t first_token = task / n_kv_heads * tokens_per_tile;
    const std::int64_t n_tokens = std::min(tokens_per_tile, args.n_tokens - first_token);
    Tile tile{.args = args,
              .kv_head = task % n_kv_heads,
              .group = group,
              .first_token = first_token,
              .n_tokens = n_tokens,
              .n_columns = tile::padded(n_tokens * group),
              .n_sink_slots = 0};
    run_tile(tile, scratch[static_cast<std::size_t>(thread_index())]);
  }
}

}  // namespace kvbench
