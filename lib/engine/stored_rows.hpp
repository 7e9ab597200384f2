// Stored keys and values on the host, as attention sees them.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.hpp"
#include "model/rotary.hpp"

namespace kvbench {

// Rows [length, head_dim] of one side of a head, in f32: those quantised, then `rows` of `dtype`.
void read_rows(Backend& backend, const QuantisedRows& quantised, const void* rows,
               std::int64_t length, std::int64_t head_dim, DType dtype, std::vector<float>& out);

// Turns row i by rotary position i, for keys that are stored un-rotated under cache_index.
void rotate_by_slot(const Rotary& rotary, std::int64_t head_dim, std::vector<float>& rows);

}  // namespace kvbench
