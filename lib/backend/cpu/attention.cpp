// Blocked attention: a task is one tile of queries, and the keys pass by in blocks.
#include "backend/cpu/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/rotation.hpp"
#include "backend/cpu/tile_kernels.hpp"
#include "core/error.hpp"

namespace kvbench {
namespace {

// A block's keys [slot, slot + n) against the queries: scores [n, n_columns].
void score_block(const Tile& tile, bool sinks, std::int64_t slot, std::int64_t n, const float* q,
                 AttentionScratch& s) {
  const AttentionArgs& args = *tile.args;
  if (tile.pairs) {
    const auto* keys = load_key_pairs(args, tile.kv(), slot, n, s.keys.data(), s.pairs.data());
    block_scores(tile, keys, sinks, slot, n, reinterpret_cast<const std::uint32_t*>(q),
                 s.scores.data());
  } else {
    const float* keys = load_keys(args, tile.kv(), slot, n, s.keys.data());
    block_scores(tile, keys, sinks, slot, n, q, s.scores.data());
  }
}

// output [head_dim, n_columns] += values . weights [n, n_columns], which pairs replace.
void add_values(const Tile& tile, std::int64_t slot, std::int64_t n, AttentionScratch& s) {
  const AttentionArgs& args = *tile.args;
  const std::int64_t d = args.head_dim;
  const auto add = [&]<class Lane>(const Lane* values, const Lane* weights, std::int64_t inner) {
    tile::product(tile::ProductOf<Lane>{.a = values,
                                        .a_row = 1,
                                        .a_inner = d,
                                        .b = weights,
                                        .c = s.output.data(),
                                        .n_rows = d,
                                        .n_inner = inner,
                                        .n_columns = tile.n_columns,
                                        .accumulate = true});
  };
  if (tile.pairs) {
    load_value_pairs(args, tile.kv(), slot, n, s.pairs.data());
    tile::pack_row_pairs(s.scores.data(), n, tile.n_columns);
    add(s.pairs.data(), reinterpret_cast<const std::uint32_t*>(s.scores.data()), (n + 1) / 2);
  } else {
    add(load_values(args, tile.kv(), slot, n, s.values.data()), s.scores.data(), n);
  }
}

// One block of keys [slot, slot + n): scores, softmax step, weighted values.
void attend_block(const Tile& tile, bool sinks, std::int64_t slot, std::int64_t n,
                  const std::vector<float>& q, AttentionScratch& s) {
  score_block(tile, sinks, slot, n, q.data(), s);
  const bool masked = block_mask(tile, s.visible, sinks, slot, n, s.first_key, s.last_key);
  tile::softmax_step({.scores = s.scores.data(),
                      .first_key = masked ? s.first_key.data() : nullptr,
                      .last_key = masked ? s.last_key.data() : nullptr,
                      .maximum = s.maximum.data(),
                      .sum = s.sum.data(),
                      .output = s.output.data(),
                      .n_keys = n,
                      .n_queries = tile.n_columns,
                      .n_output = tile.args->head_dim});
  add_values(tile, slot, n, s);
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

// Divides by the sums and writes the tile's rows of `out`, and of `log_sum_exp` where asked for.
void write_output(const Tile& tile, AttentionScratch& scratch) {
  const AttentionArgs& args = *tile.args;
  std::vector<float>& row = scratch.keys;
  for (std::int64_t t = 0; t < tile.n_tokens; ++t) {
    for (std::int64_t g = 0; g < tile.group; ++g) {
      const auto column = static_cast<std::size_t>(t * tile.group + g);
      const std::int64_t index =
          (tile.first_token + t) * args.n_heads + tile.kv_head * tile.group + g;
      const float total = scratch.sum[column];
      const float inverse = total == 0.0f ? 0.0f : 1.0f / total;  // a NaN stays one
      if (args.log_sum_exp != nullptr) {
        args.log_sum_exp[index] = scratch.maximum[column] + std::log(total);
      }
      for (std::int64_t i = 0; i < args.head_dim; ++i) {
        row[static_cast<std::size_t>(i)] =
            scratch.output[static_cast<std::size_t>(i * tile.n_columns) + column] * inverse;
      }
      if (args.out_dtype == DType::f32) {
        std::copy_n(row.data(), args.head_dim,
                    static_cast<float*>(args.out) + index * args.head_dim);
      } else {
        tile::floats_to_bf16(row.data(), args.head_dim,
                             static_cast<std::uint16_t*>(args.out) + index * args.head_dim);
      }
    }
  }
}

void run_tile(const Tile& tile, AttentionScratch& s) {
  const AttentionArgs& args = *tile.args;
  find_visible(tile, s.visible);
  const auto columns = static_cast<std::size_t>(tile.n_columns);
  const auto block = static_cast<std::size_t>(kKeyBlock);
  const auto d = static_cast<std::size_t>(args.head_dim);
  s.keys.resize(block * d);
  s.values.resize(block * d);
  s.pairs.resize(block * d / 2);
  s.scores.resize(block * columns);
  s.output.assign(d * columns, 0.0f);
  // Off by one: as if a key of score 0 and value 0 had been seen already.
  s.maximum.assign(columns, args.off_by_one ? 0.0f : -std::numeric_limits<float>::infinity());
  s.sum.assign(columns, args.off_by_one ? 1.0f : 0.0f);
  // Padding columns see everything; their results are not written.
  s.first_key.assign(columns, 0);
  s.last_key.assign(columns, kKeyBlock);

  const auto gather = [&](const RopeRows& rope, std::vector<float>& q) {
    gather_queries(tile, rope, s.keys.data(), q);
    if (tile.pairs) tile::pack_row_pairs(q.data(), args.head_dim, tile.n_columns);
  };
  gather(args.q_rope, s.q);
  if (tile.n_sink_slots > 0) {
    const bool own_rotation = args.q_rope_sink.cosine != nullptr;
    if (own_rotation) gather(args.q_rope_sink, s.q_sink);
    attend_segment(tile, true, own_rotation ? s.q_sink : s.q, s);
  }
  attend_segment(tile, false, s.q, s);
  write_output(tile, s);
}

}  // namespace

void cpu_attention(const AttentionArgs& args, std::vector<AttentionScratch>& scratch) {
  const auto n_kv_heads = static_cast<std::int64_t>(args.kv.size());
  KVB_CHECK(n_kv_heads > 0 && args.n_heads % n_kv_heads == 0, "{} query heads over {} KV heads",
            args.n_heads, n_kv_heads);
  const std::int64_t n_tasks = tiles_per_head(args) * n_kv_heads;
  const bool pairs = takes_pairs(args);
  [[maybe_unused]] const int n_threads = static_cast<int>(scratch.size());
#pragma omp parallel for schedule(dynamic) num_threads(n_threads) if (n_tasks > 1)
  for (std::int64_t task = 0; task < n_tasks; ++task) {
    Tile tile = make_tile(args, task % n_kv_heads, task / n_kv_heads);
    tile.pairs = pairs;
    run_tile(tile, scratch[static_cast<std::size_t>(thread_index())]);
  }
}

}  // namespace kvbench
