// Rotary position embedding: its configuration and the frequencies that follow from it.
// Pure arithmetic in double; whoever rotates builds cos/sin tables from these numbers and rounds
// only the finished tables.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace kvbench {

// How the plain frequencies theta^(-2i/rotary_dim) are stretched for longer contexts.
enum class RopeType : std::uint8_t {
  plain,    // "default": not at all
  linear,   // all divided by `factor`
  dynamic,  // "dynamic NTK": theta grows with the text's length
  llama3,   // slow frequencies divided, fast ones kept, a blend between (Llama 3.1)
  yarn,     // a ramp between kept and divided, plus a factor on cos and sin (arXiv:2309.00071)
  longrope  // each divided by its own factor, of one set for short texts and one for long ones,
            // plus a factor on cos and sin (arXiv:2402.13753)
};

struct RopeConfig {
  RopeType type = RopeType::plain;
  double theta = 10000.0;
  // Leading dims of a head that rotate (even); the rest passes through.
  std::int64_t rotary_dim = 0;
  // Pairs are (2i, 2i+1) when true, (i, i + rotary_dim/2) when false.
  bool interleaved = false;

  // Not for plain: the context is stretched this many times.
  double factor = 1.0;
  // dynamic, llama3, yarn, longrope: context length in tokens that the model was trained on.
  std::int64_t original_max_positions = 0;

  // llama3: wavelengths above original/low are divided, those below original/high are kept.
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;

  // yarn, longrope: cos and sin are multiplied by this; always resolved (1 for the other types).
  double attention_factor = 1.0;
  // yarn: rotations within the original context at which the ramp begins and ends.
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  // yarn: the ramp's ends are rounded outwards to whole dims.
  bool truncate = true;

  // longrope: [rotary_dim / 2] divisors, for texts of up to original_max_positions and for others.
  std::vector<double> short_factors = {};
  std::vector<double> long_factors = {};
};

struct RopeFrequencies {
  std::vector<double> inv_freq;   // [rotary_dim / 2] radians per position
  double attention_factor = 1.0;  // multiply cos and sin by this
};

// The frequencies for a text of `length` tokens. Only `dynamic` and `longrope` look at the length,
// and only whether and how far it exceeds original_max_positions. It is the length of the text,
// never of an evicted cache.
RopeFrequencies rope_frequencies(const RopeConfig& config, std::int64_t length);

// Whether two lengths can give different frequencies, so that keys must be stored unrotated.
inline bool depends_on_length(const RopeConfig& config) {
  return config.type == RopeType::dynamic || config.type == RopeType::longrope;
}

// The yarn attention factor of a config that does not state one; 0 stands for an absent mscale.
double yarn_attention_factor(double factor, double mscale, double mscale_all_dim);
// The longrope attention factor of a config that does not state one.
double longrope_attention_factor(double factor, std::int64_t original_max_positions);

// A row of the table of known types: config.json's spelling; a type's first row is its name.
struct RopeTypeName {
  std::string_view name;
  RopeType type;
};
std::span<const RopeTypeName> rope_types();
std::string_view rope_type_name(RopeType type);

}  // namespace kvbench
