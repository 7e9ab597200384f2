// Visible ranges against the rule of AttentionArgs, applied slot by slot.
#include "backend/cuda/visible_ranges.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace kvbench {
namespace {

bool sees(const AttentionArgs& args, const KvHeadView& kv, std::int64_t token, std::int64_t slot) {
  const std::int64_t position = kv.positions[slot];
  const std::int64_t q_position = args.q_positions[token];
  const bool sink = position < args.sinks;
  if (position > q_position || (!sink && q_position - position > args.recent)) return false;
  std::int64_t distance = q_position - position;
  if (args.slot_rope.cosine != nullptr) {
    const std::int64_t own_slot = kv.length - args.n_tokens + token;
    const bool from_sink = sink && args.q_sink_positions != nullptr;
    distance = (from_sink ? args.q_sink_positions[token] : own_slot) - slot;
  }
  return distance < args.window;
}

TEST_CASE("visible ranges hold exactly the slots that the rule names") {
  std::mt19937 generator(5);
  const auto upto = [&](std::int64_t n) {
    return static_cast<std::int64_t>(generator() % static_cast<std::uint32_t>(n));
  };
  const float table = 1.0f;
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t n_tokens = 1 + upto(12);
    const std::int64_t past = upto(30);
    std::vector<std::int32_t> positions;
    std::int32_t next = 0;
    const bool by_slot = upto(2) == 0;
    // The first entries are there; the later ones have gaps.
    for (std::int64_t i = 0; i < past; ++i) {
      positions.push_back(next);
      next += static_cast<std::int32_t>(i < 4 ? 1 : 1 + upto(3));
    }
    std::vector<std::int32_t> q_positions, sink_positions;
    for (std::int64_t i = 0; i < n_tokens; ++i) {
      positions.push_back(next);
      q_positions.push_back(next++);
      sink_positions.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(past + i, 9)));
    }
    AttentionArgs args{};
    args.n_tokens = n_tokens;
    args.q_positions = q_positions.data();
    args.sinks = upto(5);
    args.recent = upto(3) == 0 ? kUnlimited : upto(20);
    args.window = upto(2) == 0 ? kUnlimited : 1 + upto(25);
    if (by_slot) {
      args.slot_rope = {&table, &table};
      args.q_sink_positions = sink_positions.data();
    }
    const KvHeadView kv{nullptr, nullptr, positions.data(),
                        static_cast<std::int64_t>(positions.size())};
    std::vector<VisibleRanges> ranges(static_cast<std::size_t>(n_tokens));
    find_visible_ranges(args, kv, ranges.data());
    for (std::int64_t token = 0; token < n_tokens; ++token) {
      const VisibleRanges& v = ranges[static_cast<std::size_t>(token)];
      for (std::int64_t slot = 0; slot < kv.length; ++slot) {
        const bool in_range =
            (slot >= v.sink_first && slot < v.sink_last) || (slot >= v.first && slot < v.last);
        CAPTURE(round);
        CAPTURE(token);
        CAPTURE(slot);
        REQUIRE(in_range == sees(args, kv, token, slot));
      }
    }
  }
}

}  // namespace
}  // namespace kvbench
