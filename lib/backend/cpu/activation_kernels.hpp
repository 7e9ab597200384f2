// Activations and soft caps, SIMD, chosen for the instruction set at run time as in
// tile_kernels.hpp.
#pragma once

#include <cstdint>

#include "core/layer_kinds.hpp"

namespace kvbench::tile {

// out = activation(gate) * up, [n] each.
void gate(Activation activation, const float* gate, const float* up, std::int64_t n, float* out);
// out = activation(x), [n] each.
void activate(Activation activation, const float* x, std::int64_t n, float* out);
// x = cap * tanh(x / cap), [n].
void soft_cap(float* x, std::int64_t n, float cap);

}  // namespace kvbench::tile
