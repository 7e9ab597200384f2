// What the attention operations share: a tile of queries, which slots they see, and the scores of
// one block of keys.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.hpp"

namespace kvbench {

constexpr std::int64_t kKeyBlock = 64;
constexpr std::int64_t kTileColumns = 128;  // queries per tile, all heads of the group counted

// One KV head and some tokens. The query heads that share the KV head lie side by side as the
// columns of the tile (column = token * group + head of the group), so that keys are read once.
struct Tile {
  const AttentionArgs* args;
  std::int64_t kv_head;
  std::int64_t group;  // query heads per KV head
  std::int64_t first_token;
  std::int64_t n_tokens;
  std::int64_t n_columns;     // n_tokens * group, padded
  std::int64_t n_sink_slots;  // slots that hold one of the text's first `sinks` tokens
  bool pairs = false;         // products are of pairs of bf16

  const KvHeadView& kv() const { return args->kv[static_cast<std::size_t>(kv_head)]; }
};

std::int64_t tiles_per_head(const AttentionArgs& args);
Tile make_tile(const AttentionArgs& args, std::int64_t kv_head, std::int64_t index);

// The slots that one query sees: sinks [sink_first, sink_last) and others [first, last).
struct VisibleSlots {
  std::int64_t sink_first, sink_last, first, last;
};
// One entry per token of the tile.
void find_visible(const Tile& tile, std::vector<VisibleSlots>& visible);

// Queries of the tile, rotated and scaled, as columns: out [head_dim, n_columns].
// `row` is working memory of at least head_dim.
void gather_queries(const Tile& tile, const RopeRows& rope, float* row, std::vector<float>& out);

// Keys [slot, slot + n) of a head as attention sees them: dense f32, rotated; in `scratch`
// [n, head_dim] or in place. The same for values.
const float* load_keys(const AttentionArgs& args, const KvHeadView& kv, std::int64_t slot,
                       std::int64_t n, float* scratch);
const float* load_values(const AttentionArgs& args, const KvHeadView& kv, std::int64_t slot,
                         std::int64_t n, float* scratch);

// Whether keys and values can be multiplied as pairs of bf16: they are stored so, and the processor
// does it faster than in f32.
bool takes_pairs(const AttentionArgs& args);

// As load_keys, in pairs along the head: [n, head_dim / 2] lanes, in `scratch` or in place.
// `floats` is working memory [n, head_dim] for keys that have to be turned.
const std::uint32_t* load_key_pairs(const AttentionArgs& args, const KvHeadView& kv,
                                    std::int64_t slot, std::int64_t n, float* floats,
                                    std::uint32_t* scratch);
// Values in pairs of neighbouring slots: out [(n + 1) / 2, head_dim] lanes.
void load_value_pairs(const AttentionArgs& args, const KvHeadView& kv, std::int64_t slot,
                      std::int64_t n, std::uint32_t* out);

// The visible keys of block [slot, slot + n), per column: [first_key, last_key). Padding columns
// see all. False when every query sees the whole block, so that nothing need be masked.
bool block_mask(const Tile& tile, const std::vector<VisibleSlots>& visible, bool sinks,
                std::int64_t slot, std::int64_t n, std::vector<std::int32_t>& first_key,
                std::vector<std::int32_t>& last_key);

// scores [n, n_columns] = keys [n, head_dim] . q [head_dim, n_columns], capped and biased as the
// arguments of attention say; the keys are those of slots [slot, slot + n), sinks or others.
// Lane: float, or std::uint32_t for pairs of bf16 along the head.
template <class Lane>
void block_scores(const Tile& tile, const Lane* keys, bool sinks, std::int64_t slot, std::int64_t n,
                  const Lane* q, float* scores);

}  // namespace kvbench
