// xoshiro256** and splitmix64, from the authors' public-domain descriptions.
#include "core/rng.hpp"

#include <bit>

#include "core/error.hpp"

namespace kvbench {
namespace {

std::uint64_t splitmix64(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  return mixed ^ (mixed >> 31);
}

}  // namespace

Rng::Rng(std::uint64_t seed, std::uint64_t stream) {
  // The stream is hashed before it meets the seed, so that (1, 0) and (0, 1) share nothing.
  std::uint64_t hashed_stream = stream;
  std::uint64_t fill = seed ^ (stream == 0 ? 0 : splitmix64(hashed_stream));
  for (std::uint64_t& word : state_) word = splitmix64(fill);
}

std::uint64_t Rng::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Rng::below(std::uint64_t bound) {
  KVB_CHECK(bound > 0, "a random number below 0 was asked for");
  // The lowest 2^64 mod bound values are refused; what is left is a whole number of bounds.
  const std::uint64_t refused = (0 - bound) % bound;
  std::uint64_t drawn = next();
  while (drawn < refused) drawn = next();
  return drawn % bound;
}

double Rng::uniform() {
  return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

}  // namespace kvbench
