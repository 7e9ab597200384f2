// Activations and soft caps against double arithmetic, under every instruction set.
#include "backend/cpu/activation_kernels.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tests/unit/backend/instruction_sets.hpp"
#include "tests/unit/backend/random_values.hpp"

namespace kvbench {
namespace {

using test::random_floats;
using test::under_every_instruction_set;

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::silu:
      return x / (1.0 + std::exp(-x));
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  }
  return NAN;
}

TEST_CASE("activations of every kind, gated and not, ordinary and extreme inputs") {
  under_every_instruction_set([] {
    Rng rng(4);
    for (const Activation kind : {Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
      for (const std::int64_t n : {1, 3, 8, 16, 17, 100}) {
        auto gate = random_floats(rng, n, 6.0);
        if (n >= 8) {
          gate[0] = 200.0f;
          gate[1] = -200.0f;
          gate[2] = 0.0f;
          gate[3] = -1e-20f;
        }
        const auto up = random_floats(rng, n);
        std::vector<float> out(static_cast<std::size_t>(n));
        tile::gate(kind, gate.data(), up.data(), n, out.data());
        std::vector<float> plain(out.size());
        tile::activate(kind, gate.data(), n, plain.data());
        for (std::size_t i = 0; i < out.size(); ++i) {
          const double alone = activated(kind, gate[i]);
          CHECK(std::abs(plain[i] - alone) < 1e-5 + 1e-5 * std::abs(alone));
          const double expected = alone * up[i];
          CHECK(std::abs(out[i] - expected) < 1e-5 + 1e-5 * std::abs(expected));
        }
      }
    }
  });
}

TEST_CASE("soft caps: small values pass, large ones saturate, none overflow") {
  under_every_instruction_set([] {
    Rng rng(6);
    for (const double cap : {0.5, 30.0, 50.0}) {
      for (const std::int64_t n : {1, 5, 16, 33}) {
        auto x = random_floats(rng, n, 100.0);
        x[0] = 3e4f;
        if (n > 4) x[4] = -3e4f;
        if (n > 2) x[2] = 1e-3f;
        std::vector<double> expected;
        for (const float value : x) expected.push_back(cap * std::tanh(value / cap));
        tile::soft_cap(x.data(), n, static_cast<float>(cap));
        CHECK(test::largest_gap(x, expected) < 1e-5 * cap + 1e-6);
      }
    }
  });
}

}  // namespace
}  // namespace kvbench
