// Searches that start where the previous query's ended: positions ascend on both sides, so a whole
// prompt costs about one step per query and bound.
#include "backend/cuda/visible_ranges.hpp"

#include <algorithm>

namespace kvbench {
namespace {

// The first slot at or after `from` whose position is at least `position`; doubling steps, then
// bisection.
std::int64_t seek(const KvHeadView& kv, std::int64_t from, std::int64_t position) {
  std::int64_t step = 1;
  std::int64_t below = from;
  while (below + step < kv.length && kv.positions[below + step] < position) {
    below += step;
    step *= 2;
  }
  const std::int64_t end = std::min(below + step, kv.length);
  return std::lower_bound(kv.positions + below, kv.positions + end, position) - kv.positions;
}

// One bound as a function of an ascending position.
class Bound {
 public:
  explicit Bound(const KvHeadView& kv) : kv_(kv) {}
  std::int64_t at(std::int64_t position) {
    // Positions that do not ascend after all only cost time.
    if (slot_ > 0 && kv_.positions[slot_ - 1] >= position) slot_ = 0;
    slot_ = seek(kv_, slot_, position);
    return slot_;
  }

 private:
  const KvHeadView& kv_;
  std::int64_t slot_ = 0;
};

}  // namespace

bool counts_slots(const AttentionArgs& args) {
  return args.distance_by_slot || args.slot_rope.cosine != nullptr;
}

void find_visible_ranges(const AttentionArgs& args, const KvHeadView& kv, VisibleRanges* out) {
  const bool by_slot = counts_slots(args);
  const std::int64_t n_sinks = args.sinks > 0 ? seek(kv, 0, args.sinks) : 0;
  Bound end(kv);
  Bound recent(kv);
  Bound window(kv);
  for (std::int64_t token = 0; token < args.n_tokens; ++token) {
    const std::int64_t position = args.q_positions[token];
    const std::int64_t own_slot = kv.length - args.n_tokens + token;
    std::int64_t last = end.at(position + 1);
    std::int64_t first = args.recent < kUnlimited ? recent.at(position - args.recent) : 0;
    std::int64_t sink_first = 0;
    if (args.window < kUnlimited) {
      first = std::max(
          first, by_slot ? own_slot - args.window + 1 : window.at(position - args.window + 1));
      const std::int64_t seen_from =
          args.q_sink_positions != nullptr ? args.q_sink_positions[token] : position;
      sink_first = std::max<std::int64_t>(0, seen_from - args.window + 1);
    }
    const std::int64_t sink_last = std::min(n_sinks, last);
    first = std::max(first, n_sinks);
    last = std::max(last, first);
    out[token] = {static_cast<std::int32_t>(std::min(sink_first, sink_last)),
                  static_cast<std::int32_t>(sink_last), static_cast<std::int32_t>(first),
                  static_cast<std::int32_t>(last)};
  }
}

}  // namespace kvbench
