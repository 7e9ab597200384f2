// The formulas of the rotary scaling types.
#include "model/rope.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/error.hpp"

namespace kvbench {
namespace {

constexpr std::array kRopeTypes{
    RopeTypeName{"default", RopeType::plain},   RopeTypeName{"linear", RopeType::linear},
    RopeTypeName{"dynamic", RopeType::dynamic}, RopeTypeName{"llama3", RopeType::llama3},
    RopeTypeName{"yarn", RopeType::yarn},       RopeTypeName{"longrope", RopeType::longrope},
    RopeTypeName{"su", RopeType::longrope},
};

// theta^(-2i/dim) for i in 0..dim/2
std::vector<double> plain_frequencies(double theta, std::int64_t rotary_dim) {
  std::vector<double> inv_freq(static_cast<std::size_t>(rotary_dim / 2));
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    inv_freq[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim));
  }
  return inv_freq;
}

// "NTK-aware" scaling: theta is raised so that the slowest pair is stretched by the text's own
// excess over the trained context.
double dynamic_theta(const RopeConfig& config, std::int64_t length) {
  const auto original = static_cast<double>(config.original_max_positions);
  const double reached = std::max(static_cast<double>(length), original);
  const double stretch = config.factor * reached / original - (config.factor - 1.0);
  const auto dim = static_cast<double>(config.rotary_dim);
  return config.theta * std::pow(stretch, dim / (dim - 2.0));
}

void stretch_llama3(const RopeConfig& config, std::vector<double>& inv_freq) {
  const auto original = static_cast<double>(config.original_max_positions);
  for (double& freq : inv_freq) {
    const double wavelength = 2.0 * std::numbers::pi / freq;
    // 0 at the slow end, where the frequency is divided; 1 at the fast end, where it is kept.
    const double kept = std::clamp((original / wavelength - config.low_freq_factor) /
                                       (config.high_freq_factor - config.low_freq_factor),
                                   0.0, 1.0);
    freq = (1.0 - kept) * freq / config.factor + kept * freq;
  }
}

// The (fractional) pair index that turns `rotations` times within the trained context.
double yarn_pair_index(const RopeConfig& config, double rotations) {
  const auto original = static_cast<double>(config.original_max_positions);
  return static_cast<double>(config.rotary_dim) *
         std::log(original / (rotations * 2.0 * std::numbers::pi)) / (2.0 * std::log(config.theta));
}

// YaRN, section "NTK-by-parts": pairs up to the ramp are kept, those after it divided.
void stretch_yarn(const RopeConfig& config, std::vector<double>& inv_freq) {
  double first = yarn_pair_index(config, config.beta_fast);
  double last = yarn_pair_index(config, config.beta_slow);
  if (config.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(config.rotary_dim) - 1.0);
  if (first == last) last += 0.001;  // a ramp of no width would divide by zero
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const double divided = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    inv_freq[i] *= divided / config.factor + (1.0 - divided);
  }
}

void stretch_longrope(const RopeConfig& config, std::int64_t length,
                      std::vector<double>& inv_freq) {
  const auto& factors =
      length > config.original_max_positions ? config.long_factors : config.short_factors;
  KVB_CHECK(factors.size() == inv_freq.size(), "{} longrope factors for {} frequencies",
            factors.size(), inv_freq.size());
  for (std::size_t i = 0; i < inv_freq.size(); ++i) inv_freq[i] /= factors[i];
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeConfig& config, std::int64_t length) {
  KVB_CHECK(config.rotary_dim > 0 && config.rotary_dim % 2 == 0, "rotary_dim {}",
            config.rotary_dim);
  const double theta =
      config.type == RopeType::dynamic ? dynamic_theta(config, length) : config.theta;
  RopeFrequencies result{.inv_freq = plain_frequencies(theta, config.rotary_dim),
                         .attention_factor = config.attention_factor};
  switch (config.type) {
    case RopeType::plain:
    case RopeType::dynamic:
      break;
    case RopeType::linear:
      for (double& freq : result.inv_freq) freq /= config.factor;
      break;
    case RopeType::llama3:
      stretch_llama3(config, result.inv_freq);
      break;
    case RopeType::yarn:
      stretch_yarn(config, result.inv_freq);
      break;
    case RopeType::longrope:
      stretch_longrope(config, length, result.inv_freq);
      break;
  }
  return result;
}

double yarn_attention_factor(double factor, double mscale, double mscale_all_dim) {
  const auto grown = [factor](double scale) {
    return factor <= 1.0 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
  };
  const bool both_given = mscale != 0.0 && mscale_all_dim != 0.0;
  return both_given ? grown(mscale) / grown(mscale_all_dim) : grown(1.0);
}

double longrope_attention_factor(double factor, std::int64_t original_max_positions) {
  if (factor <= 1.0) return 1.0;
  return std::sqrt(1.0 + std::log(factor) / std::log(static_cast<double>(original_max_positions)));
}

std::span<const RopeTypeName> rope_types() {
  return kRopeTypes;
}

std::string_view rope_type_name(RopeType type) {
  for (const RopeTypeName& row : kRopeTypes) {
    if (row.type == type) return row.name;
  }
  throw InternalError("a rope type without a name");
}

}  // namespace kvbench
