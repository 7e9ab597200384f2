// Attention calls: pointers and visible ranges are staged, few tokens go to the split kernel and
// many to the tiled one.
#include "backend/cuda/cuda_attention.hpp"

#include <algorithm>

#include "backend/cuda/kernel_arguments.hpp"
#include "backend/cuda/visible_ranges.hpp"
#include "core/error.hpp"

namespace kvbench {
namespace {

// Blocks per multiprocessor that hide each other's waiting for memory.
constexpr std::int64_t kBlocksPerMultiprocessor = 4;
// Fewer keys per split than this are not worth a block.
constexpr std::int64_t kMinKeysPerSplit = 128;

std::int64_t longest_head(std::span<const KvHeadView> kv) {
  std::int64_t longest = 0;
  for (const KvHeadView& head : kv) longest = std::max(longest, head.length);
  return longest;
}

template <class T>
const T* staged_copy(Staging::Block& block, const T* host, std::int64_t n) {
  T* staged = block.add<T>(n);
  std::copy_n(host, n, staged);
  return staged;
}

// Staged bytes of ALiBi's arrays: slopes, the queries' places, and every slot's place.
std::size_t alibi_bytes(const AttentionArgs& args) {
  std::size_t elements = static_cast<std::size_t>(args.n_heads + 2 * args.n_tokens);
  for (const KvHeadView& view : args.kv) elements += static_cast<std::size_t>(view.length);
  return elements * sizeof(float) + (3 + args.kv.size()) * Staging::kArrayPadding;
}

Alibi stage_alibi(Staging::Block& block, const AttentionArgs& args) {
  const bool by_slot = counts_slots(args);
  auto* places = block.add<std::int32_t>(args.n_tokens);
  auto* sink_places = block.add<std::int32_t>(args.n_tokens);
  for (std::int64_t token = 0; token < args.n_tokens; ++token) {
    // By slot, the heads are equally long.
    const std::int64_t own_slot = args.kv.front().length - args.n_tokens + token;
    places[token] = by_slot ? static_cast<std::int32_t>(own_slot) : args.q_positions[token];
    sink_places[token] =
        by_slot && args.q_sink_positions != nullptr ? args.q_sink_positions[token] : places[token];
  }
  return {block.on_device(staged_copy(block, args.alibi_slopes, args.n_heads)),
          block.on_device(places), block.on_device(sink_places)};
}

}  // namespace

// What the kernels need to know of an attention call; its host arrays are on their way. `coded`:
// the kernel reads codes.
AttentionParams CudaAttention::stage(const AttentionArgs& args, bool coded) {
  const auto n_kv_heads = static_cast<std::int64_t>(args.kv.size());
  KVB_CHECK(n_kv_heads > 0 && args.n_heads % n_kv_heads == 0, "{} query heads over {} KV heads",
            args.n_heads, n_kv_heads);
  const bool by_slot = counts_slots(args);
  const bool alibi = args.alibi_slopes != nullptr;
  const auto tokens = static_cast<std::size_t>(args.n_tokens);
  const auto heads = static_cast<std::size_t>(n_kv_heads);
  std::size_t bytes =
      heads * (sizeof(KvRows) + tokens * sizeof(VisibleRanges)) + 2 * Staging::kArrayPadding;
  if (alibi) bytes += alibi_bytes(args);
  if (coded) bytes += staged_coded_bytes(args.kv);
  Staging::Block block = staging_.open(bytes);
  auto* kv = block.add<KvRows>(n_kv_heads);
  auto* visible = block.add<VisibleRanges>(n_kv_heads * args.n_tokens);
  for (std::int64_t head = 0; head < n_kv_heads; ++head) {
    const KvHeadView& view = args.kv[static_cast<std::size_t>(head)];
    kv[head] = {view.keys, view.values, nullptr, view.length};
    if (coded) {
      kv[head].coded_keys = stage_coded(block, view.quantised_keys);
      kv[head].coded_values = stage_coded(block, view.quantised_values);
    }
    find_visible_ranges(args, view, visible + head * args.n_tokens);
    if (alibi && !by_slot) {
      kv[head].places = block.on_device(staged_copy(block, view.positions, view.length));
    }
  }
  const Alibi staged_alibi = alibi ? stage_alibi(block, args) : Alibi{};
  block.send();
  const RopeTable q_rope = rope_table(args.q_rope, args.rope_shape);
  return {.q = args.q,
          .q_stride = args.q_stride,
          .out = args.out,
          .kv = block.on_device(kv),
          .visible = block.on_device(visible),
          .n_tokens = args.n_tokens,
          .n_heads = static_cast<int>(args.n_heads),
          .n_kv_heads = static_cast<int>(n_kv_heads),
          .head_dim = static_cast<int>(args.head_dim),
          .scale = args.scale,
          .kv_bf16 = is_bf16(args.kv_dtype),
          .coded = coded,
          .out_bf16 = is_bf16(args.out_dtype),
          .q_rope = q_rope,
          .q_rope_sink = args.q_rope_sink.cosine == nullptr
                             ? q_rope
                             : rope_table(args.q_rope_sink, args.rope_shape),
          .slot_rope = rope_table(args.slot_rope, args.rope_shape),
          .log_sum_exp = args.log_sum_exp,
          .logit_cap = args.logit_cap,
          .off_by_one = args.off_by_one,
          .alibi = staged_alibi};
}

void CudaAttention::run(const AttentionArgs& args) {
  const bool coded = partly_quantised(args.kv);
  if (args.n_tokens > kMaxDecodeTokens) {
    attention_prefill(stage(coded ? widening_.over_rows(args) : args, false), stream_);
    return;
  }
  const AttentionParams params = stage(args, coded);
  const std::int64_t wanted = kBlocksPerMultiprocessor * n_multiprocessors_ /
                              std::max<std::int64_t>(1, decode_blocks(params));
  const std::int64_t most = (longest_head(args.kv) + kMinKeysPerSplit - 1) / kMinKeysPerSplit;
  const int n_splits = static_cast<int>(std::max<std::int64_t>(1, std::min(wanted, most)));
  float* partials = nullptr;
  if (n_splits > 1) {
    // Room for the most there can be: growing entries then allocate nothing.
    partials = partials_.get<float>(decode_partial_floats(params, static_cast<int>(wanted)));
  }
  attention_decode(params, n_splits, partials, stream_);
}

void CudaAttention::weights(const AttentionWeightsArgs& args) {
  KVB_CHECK(args.attention.sinks == 0, "attention weights under a sink pattern");
  const bool quantised = partly_quantised(args.attention.kv);
  const AttentionArgs call = quantised ? widening_.over_rows(args.attention) : args.attention;
  kvbench::attention_weights({.attention = stage(call, false),
                              .log_sum_exp = args.log_sum_exp,
                              .weights = args.weights,
                              .row_stride = args.row_stride,
                              .longest = longest_head(call.kv),
                              .sum_tokens = args.sum_tokens},
                             stream_);
}

}  // namespace kvbench
