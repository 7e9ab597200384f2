// Tiles of queries. Scores are kept transposed, [keys, queries]: the softmax then runs down the
// columns and needs no shuffles. Masks are slot ranges per query, because slots are ordered by
// position.
#include "backend/cpu/attention_tile.hpp"

#include <algorithm>
#include <type_traits>

#include "backend/cpu/activation_kernels.hpp"
#include "backend/cpu/rotation.hpp"
#include "backend/cpu/tile_kernels.hpp"

namespace kvbench {
namespace {

std::int64_t group_of(const AttentionArgs& args) {
  return args.n_heads / static_cast<std::int64_t>(args.kv.size());
}

std::int64_t tokens_per_tile(const AttentionArgs& args) {
  return std::max<std::int64_t>(1, kTileColumns / group_of(args));
}

bool counts_slots(const AttentionArgs& args) {
  return args.distance_by_slot || args.slot_rope.cosine != nullptr;
}

VisibleSlots visible_slots(const AttentionArgs& args, const KvHeadView& kv, std::int64_t token,
                           std::int64_t n_sink_slots) {
  const std::int32_t* begin = kv.positions;
  const std::int32_t* end = kv.positions + kv.length;
  const std::int64_t position = args.q_positions[token];
  const std::int64_t own_slot = kv.length - args.n_tokens + token;
  const bool by_slot = counts_slots(args);

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

// Taken off the scores: slope times the distance between query and key.
void add_alibi(const Tile& tile, bool sinks, std::int64_t slot, std::int64_t n, float* scores) {
  const AttentionArgs& args = *tile.args;
  const KvHeadView& kv = tile.kv();
  const bool by_slot = counts_slots(args);
  for (std::int64_t t = 0; t < tile.n_tokens; ++t) {
    const std::int64_t token = tile.first_token + t;
    std::int64_t own_place = args.q_positions[token];
    if (by_slot) own_place = kv.length - args.n_tokens + token;
    if (by_slot && sinks && args.q_sink_positions != nullptr) {
      own_place = args.q_sink_positions[token];
    }
    for (std::int64_t key = 0; key < n; ++key) {
      const std::int64_t place = by_slot ? slot + key : kv.positions[slot + key];
      const auto distance = static_cast<float>(own_place - place);
      float* column = scores + key * tile.n_columns + t * tile.group;
      const float* slopes = args.alibi_slopes + tile.kv_head * tile.group;
      for (std::int64_t g = 0; g < tile.group; ++g) column[g] -= slopes[g] * distance;
    }
  }
}

// Rows [row, row + n) as dense f32: in place when they are stored so and `copy` is not asked for,
// else in `scratch` [n, head_dim].
const float* widen_rows(const void* rows, const AttentionArgs& args, std::int64_t row,
                        std::int64_t n, bool copy, float* scratch) {
  const std::int64_t first = row * args.head_dim;
  const std::int64_t size = n * args.head_dim;
  if (args.kv_dtype == DType::f32) {
    const float* stored = static_cast<const float*>(rows) + first;
    if (!copy) return stored;
    std::copy_n(stored, size, scratch);
  } else {
    tile::bf16_to_floats(static_cast<const std::uint16_t*>(rows) + first, size, scratch);
  }
  return scratch;
}

// Slots [slot, slot + n) of one side of a head: quantised ones first, `rows` after them.
const float* load_rows(const QuantisedRows& quantised, const void* rows, const AttentionArgs& args,
                       std::int64_t slot, std::int64_t n, bool copy, float* scratch) {
  const std::int64_t behind = slot - quantised.n_rows;
  if (behind >= 0) return widen_rows(rows, args, behind, n, copy, scratch);
  const std::int64_t n_quantised = std::min(-behind, n);
  dequantise_rows(quantised, slot, n_quantised, args.head_dim, scratch);
  if (n_quantised < n) {
    widen_rows(rows, args, 0, n - n_quantised, true, scratch + n_quantised * args.head_dim);
  }
  return scratch;
}

}  // namespace

std::int64_t tiles_per_head(const AttentionArgs& args) {
  const std::int64_t per_tile = tokens_per_tile(args);
  return (args.n_tokens + per_tile - 1) / per_tile;
}

Tile make_tile(const AttentionArgs& args, std::int64_t kv_head, std::int64_t index) {
  const std::int64_t first_token = index * tokens_per_tile(args);
  const std::int64_t n_tokens = std::min(tokens_per_tile(args), args.n_tokens - first_token);
  Tile tile{.args = &args,
            .kv_head = kv_head,
            .group = group_of(args),
            .first_token = first_token,
            .n_tokens = n_tokens,
            .n_columns = tile::padded(n_tokens * group_of(args)),
            .n_sink_slots = 0};
  if (args.sinks > 0) {
    const KvHeadView& kv = tile.kv();
    tile.n_sink_slots =
        std::lower_bound(kv.positions, kv.positions + kv.length, args.sinks) - kv.positions;
  }
  return tile;
}

void find_visible(const Tile& tile, std::vector<VisibleSlots>& visible) {
  visible.clear();
  for (std::int64_t t = 0; t < tile.n_tokens; ++t) {
    visible.push_back(
        visible_slots(*tile.args, tile.kv(), tile.first_token + t, tile.n_sink_slots));
  }
}

void gather_queries(const Tile& tile, const RopeRows& rope, float* row, std::vector<float>& out) {
  const AttentionArgs& args = *tile.args;
  out.assign(static_cast<std::size_t>(args.head_dim * tile.n_columns), 0.0f);
  for (std::int64_t t = 0; t < tile.n_tokens; ++t) {
    const std::int64_t token = tile.first_token + t;
    for (std::int64_t g = 0; g < tile.group; ++g) {
      const float* q =
          args.q + token * args.q_stride + (tile.kv_head * tile.group + g) * args.head_dim;
      std::copy_n(q, args.head_dim, row);
      rotate_row(row, rope, token, args.rope_shape);
      float* column = out.data() + t * tile.group + g;
      for (std::int64_t i = 0; i < args.head_dim; ++i) {
        column[i * tile.n_columns] = row[i] * args.scale;
      }
    }
  }
}

const float* load_keys(const AttentionArgs& args, const KvHeadView& kv, std::int64_t slot,
                       std::int64_t n, float* scratch) {
  const bool rotate = args.slot_rope.cosine != nullptr;
  const float* keys = load_rows(kv.quantised_keys, kv.keys, args, slot, n, rotate, scratch);
  if (rotate) {
    for (std::int64_t i = 0; i < n; ++i) {
      rotate_row(scratch + i * args.head_dim, args.slot_rope, slot + i, args.rope_shape);
    }
  }
  return keys;
}

const float* load_values(const AttentionArgs& args, const KvHeadView& kv, std::int64_t slot,
                         std::int64_t n, float* scratch) {
  return load_rows(kv.quantised_values, kv.values, args, slot, n, false, scratch);
}

bool takes_pairs(const AttentionArgs& args) {
  const auto quantised = [](const KvHeadView& kv) {
    return kv.quantised_keys.n_rows > 0 || kv.quantised_values.n_rows > 0;
  };
  return args.kv_dtype == DType::bf16 && args.out_dtype == DType::bf16 && args.head_dim % 2 == 0 &&
         tile::multiplies_pairs() && std::ranges::none_of(args.kv, quantised);
}

const std::uint32_t* load_key_pairs(const AttentionArgs& args, const KvHeadView& kv,
                                    std::int64_t slot, std::int64_t n, float* floats,
                                    std::uint32_t* scratch) {
  if (args.slot_rope.cosine == nullptr) {
    const auto* stored = static_cast<const std::uint16_t*>(kv.keys) + slot * args.head_dim;
    return reinterpret_cast<const std::uint32_t*>(stored);
  }
  const float* keys = load_keys(args, kv, slot, n, floats);
  tile::floats_to_bf16(keys, n * args.head_dim, reinterpret_cast<std::uint16_t*>(scratch));
  return scratch;
}

void load_value_pairs(const AttentionArgs& args, const KvHeadView& kv, std::int64_t slot,
                      std::int64_t n, std::uint32_t* out) {
  const auto* stored = static_cast<const std::uint16_t*>(kv.values) + slot * args.head_dim;
  tile::pack_row_pairs(stored, n, args.head_dim, out);
}

bool block_mask(const Tile& tile, const std::vector<VisibleSlots>& visible, bool sinks,
                std::int64_t slot, std::int64_t n, std::vector<std::int32_t>& first_key,
                std::vector<std::int32_t>& last_key) {
  bool masked = false;
  for (std::int64_t t = 0; t < tile.n_tokens; ++t) {
    const VisibleSlots& v = visible[static_cast<std::size_t>(t)];
    const std::int64_t first = (sinks ? v.sink_first : v.first) - slot;
    const std::int64_t last = (sinks ? v.sink_last : v.last) - slot;
    masked = masked || first > 0 || last < n;
    for (std::int64_t g = 0; g < tile.group; ++g) {
      const auto column = static_cast<std::size_t>(t * tile.group + g);
      first_key[column] = static_cast<std::int32_t>(std::clamp<std::int64_t>(first, 0, n));
      last_key[column] = static_cast<std::int32_t>(std::clamp<std::int64_t>(last, 0, n));
    }
  }
  return masked;
}

template <class Lane>
void block_scores(const Tile& tile, const Lane* keys, bool sinks, std::int64_t slot, std::int64_t n,
                  const Lane* q, float* scores) {
  const auto per_lane = static_cast<std::int64_t>(std::is_same_v<Lane, float> ? 1 : 2);
  const std::int64_t inner = tile.args->head_dim / per_lane;
  tile::product(tile::ProductOf<Lane>{.a = keys,
                                      .a_row = inner,
                                      .a_inner = 1,
                                      .b = q,
                                      .c = scores,
                                      .n_rows = n,
                                      .n_inner = inner,
                                      .n_columns = tile.n_columns,
                                      .accumulate = false});
  if (tile.args->logit_cap > 0.0f) {
    tile::soft_cap(scores, n * tile.n_columns, tile.args->logit_cap);
  }
  if (tile.args->alibi_slopes != nullptr) add_alibi(tile, sinks, slot, n, scores);
}

template void block_scores(const Tile&, const float*, bool, std::int64_t, std::int64_t,
                           const float*, float*);
template void block_scores(const Tile&, const std::uint32_t*, bool, std::int64_t, std::int64_t,
                           const std::uint32_t*, float*);

}  // namespace kvbench
