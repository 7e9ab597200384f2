// Attention weights from scores and the log-sum-exp that attention left. A task is one block of
// keys of one KV head, so that each output is written by one thread in a fixed order.
#include "backend/cpu/attention_weights.hpp"

#include <algorithm>
#include <limits>

#include "backend/cpu/rotation.hpp"
#include "backend/cpu/tile_kernels.hpp"
#include "core/error.hpp"

namespace kvbench {
namespace {

void prepare_tile(const AttentionWeightsArgs& args, std::int64_t kv_head, std::int64_t index,
                  float* row, WeightsTile& out) {
  out.tile = make_tile(args.attention, kv_head, index);
  const Tile& tile = out.tile;
  gather_queries(tile, args.attention.q_rope, row, out.q);
  find_visible(tile, out.visible);
  const auto columns = static_cast<std::size_t>(tile.n_columns);
  out.log_sum_exp.assign(columns, std::numeric_limits<float>::infinity());
  const std::int64_t heads = tile::padded(tile.group);
  out.head_of_column.assign(columns * static_cast<std::size_t>(heads), 0.0f);
  for (std::int64_t t = 0; t < tile.n_tokens; ++t) {
    for (std::int64_t g = 0; g < tile.group; ++g) {
      const std::int64_t column = t * tile.group + g;
      const std::int64_t head = kv_head * tile.group + g;
      out.log_sum_exp[static_cast<std::size_t>(column)] =
          args.log_sum_exp[(tile.first_token + t) * args.attention.n_heads + head];
      out.head_of_column[static_cast<std::size_t>(column * heads + g)] = 1.0f;
    }
  }
}

// Weights of block [slot, slot + n) in scratch.scores [n, n_columns].
void block_weights(const WeightsTile& tile, const float* keys, std::int64_t slot, std::int64_t n,
                   AttentionScratch& s) {
  const auto columns = static_cast<std::size_t>(tile.tile.n_columns);
  s.scores.resize(static_cast<std::size_t>(kKeyBlock) * columns);
  s.first_key.assign(columns, 0);
  s.last_key.assign(columns, kKeyBlock);
  block_scores(tile.tile, keys, false, slot, n, tile.q.data(), s.scores.data());
  const bool masked = block_mask(tile.tile, tile.visible, false, slot, n, s.first_key, s.last_key);
  tile::weights_from_scores({.scores = s.scores.data(),
                             .first_key = masked ? s.first_key.data() : nullptr,
                             .last_key = masked ? s.last_key.data() : nullptr,
                             .log_sum_exp = tile.log_sum_exp.data(),
                             .n_keys = n,
                             .n_queries = tile.tile.n_columns});
}

void store_rows(const AttentionWeightsArgs& args, const Tile& tile, std::int64_t slot,
                std::int64_t n, const float* weights) {
  for (std::int64_t t = 0; t < tile.n_tokens; ++t) {
    for (std::int64_t g = 0; g < tile.group; ++g) {
      const std::int64_t head = tile.kv_head * tile.group + g;
      const std::int64_t row = head * args.attention.n_tokens + tile.first_token + t;
      float* out = args.weights + row * args.row_stride + slot;
      const float* column = weights + t * tile.group + g;
      for (std::int64_t key = 0; key < n; ++key) out[key] = column[key * tile.n_columns];
    }
  }
}

void run_block(const AttentionWeightsArgs& args, std::span<const WeightsTile> tiles,
               std::int64_t slot, AttentionScratch& s) {
  const Tile& first = tiles.front().tile;
  const KvHeadView& kv = first.kv();
  const std::int64_t n = std::min(kKeyBlock, kv.length - slot);
  s.keys.resize(static_cast<std::size_t>(kKeyBlock * args.attention.head_dim));
  const float* keys = load_keys(args.attention, kv, slot, n, s.keys.data());
  const std::int64_t heads = tile::padded(first.group);
  s.output.assign(static_cast<std::size_t>(kKeyBlock * heads), 0.0f);
  for (const WeightsTile& tile : tiles) {
    block_weights(tile, keys, slot, n, s);
    if (!args.sum_tokens) {
      store_rows(args, tile.tile, slot, n, s.scores.data());
      continue;
    }
    // Columns of one head are added up by a product with 0/1: [n, columns] . [columns, heads].
    tile::product({.a = s.scores.data(),
                   .a_row = tile.tile.n_columns,
                   .a_inner = 1,
                   .b = tile.head_of_column.data(),
                   .c = s.output.data(),
                   .n_rows = n,
                   .n_inner = tile.tile.n_columns,
                   .n_columns = heads,
                   .accumulate = true});
  }
  if (!args.sum_tokens) return;
  for (std::int64_t g = 0; g < first.group; ++g) {
    float* out = args.weights + (first.kv_head * first.group + g) * args.row_stride + slot;
    for (std::int64_t key = 0; key < n; ++key) {
      out[key] = s.output[static_cast<std::size_t>(key * heads + g)];
    }
  }
}

}  // namespace

void cpu_attention_weights(const AttentionWeightsArgs& args, std::vector<AttentionScratch>& scratch,
                           std::vector<WeightsTile>& tiles) {
  const AttentionArgs& attention = args.attention;
  KVB_CHECK(attention.sinks == 0, "attention weights under a sink pattern");
  const auto n_kv_heads = static_cast<std::int64_t>(attention.kv.size());
  const std::int64_t per_head = tiles_per_head(attention);
  [[maybe_unused]] const int n_threads = static_cast<int>(scratch.size());
  tiles.resize(static_cast<std::size_t>(per_head * n_kv_heads));
#pragma omp parallel for num_threads(n_threads) if (tiles.size() > 3)
  for (std::int64_t i = 0; i < per_head * n_kv_heads; ++i) {
    AttentionScratch& s = scratch[static_cast<std::size_t>(thread_index())];
    s.keys.resize(static_cast<std::size_t>(kKeyBlock * attention.head_dim));
    prepare_tile(args, i / per_head, i % per_head, s.keys.data(),
                 tiles[static_cast<std::size_t>(i)]);
  }
  std::int64_t longest = 0;
  for (const KvHeadView& kv : attention.kv) longest = std::max(longest, kv.length);
  const std::int64_t blocks = (longest + kKeyBlock - 1) / kKeyBlock;
#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
  for (std::int64_t task = 0; task < blocks * n_kv_heads; ++task) {
    const std::int64_t kv_head = task % n_kv_heads;
    const std::int64_t slot = task / n_kv_heads * kKeyBlock;
    if (slot >= attention.kv[static_cast<std::size_t>(kv_head)].length) continue;
    run_block(args,
              std::span<const WeightsTile>(tiles).subspan(
                  static_cast<std::size_t>(kv_head * per_head), static_cast<std::size_t>(per_head)),
              slot, scratch[static_cast<std::size_t>(thread_index())]);
  }
}

}  // namespace kvbench
