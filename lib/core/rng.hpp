// Seeded random numbers that are the same on every platform and for every thread count.
// xoshiro256** (Blackman and Vigna, 2018), its state filled by splitmix64. The standard library's
// distributions are not used: their results differ between implementations.
#pragma once

#include <array>
#include <cstdint>

namespace kvbench {

class Rng {
 public:
  // `stream` selects an independent sequence of the same seed, e.g. one per layer and KV head.
  explicit Rng(std::uint64_t seed, std::uint64_t stream = 0);

  std::uint64_t next();
  // Uniform in [0, bound), without modulo bias. Precondition: bound > 0.
  std::uint64_t below(std::uint64_t bound);
  // Uniform in [0, 1), 53 random bits.
  double uniform();

 private:
  std::array<std::uint64_t, 4> state_;
};

}  // namespace kvbench
