// From positions to slots: which stored entries each query of an attention call sees. This is the
// whole visibility rule of AttentionArgs; the kernels get its result.
#pragma once

#include <cstdint>

#include "backend/backend.hpp"
#include "kernels/attention.hpp"

namespace kvbench {

// Whether distances count slots; else positions.
bool counts_slots(const AttentionArgs& args);

// The ranges of all queries for one KV head: out [args.n_tokens].
void find_visible_ranges(const AttentionArgs& args, const KvHeadView& kv, VisibleRanges* out);

}  // namespace kvbench
