// The kinds of layer arithmetic that model families choose between and every backend provides.
#pragma once

#include <cstdint>

namespace kvbench {

enum class NormKind : std::uint8_t {
  rms,    // x / rms(x) * weight
  layer,  // (x - mean(x)) / deviation(x) * weight + bias
  none    // x as it is
};

// The MLP computes down(activation(gate(x)) * up(x)), or down(activation(up(x))) without a gate.
enum class Activation : std::uint8_t {
  silu,
  gelu,      // exact, by erf
  gelu_tanh  // the tanh approximation
};

}  // namespace kvbench
