// Rotary settings of config.json: which of several keys decides, and what each scaling type needs.
#include "model/families/rope_keys.hpp"

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "model/families/family_keys.hpp"

namespace kvbench {
namespace {

constexpr double kMaxFactor = 1e6;
constexpr std::int64_t kMaxPositions = std::numeric_limits<std::int32_t>::max();

bool has_value(const JsonReader& keys, std::string_view key) {
  return keys.presence(key) == Presence::value;
}

std::optional<double> nullable_double(const JsonReader& keys, std::string_view key, double min,
                                      double max) {
  if (!has_value(keys, key)) return std::nullopt;
  return keys.require_double(key, min, max);
}

// The object under `key`; nothing when absent, null or empty.
std::optional<JsonReader> filled_object(const JsonReader& keys, std::string_view key) {
  if (!has_value(keys, key)) return std::nullopt;
  JsonReader object = keys.require_object(key);
  const nlohmann::json& members = *keys.find(key);
  if (members.empty()) return std::nullopt;
  for (const auto& [name, value] : members.items()) {
    if (value.is_object()) {
      object.fail(name,
                  "is an object: rotary settings that differ between layers are not supported");
    }
  }
  return object;
}

std::optional<double> theta_in(const std::optional<JsonReader>& object) {
  constexpr std::string_view kKey = "rope_theta";
  if (!object || !has_value(*object, kKey)) return std::nullopt;
  const double theta = object->require_double(kKey, 1.0, std::numeric_limits<double>::max());
  if (theta == 1.0) object->fail(kKey, "is 1, expected a number above 1");
  return theta;
}

double read_theta(const JsonReader& keys, const std::optional<JsonReader>& scaling,
                  const std::optional<JsonReader>& parameters, double default_theta,
                  std::vector<std::string>& warnings) {
  const std::array found{theta_in(scaling), theta_in(parameters),
                         theta_in(std::optional<JsonReader>(keys))};
  std::optional<double> chosen;
  for (const auto& theta : found) {
    if (!theta) continue;
    if (!chosen) chosen = theta;
    if (*theta != *chosen) {
      warnings.push_back(
          fmt::format("{}: rope_theta is {} in one place and {} in another; {} is "
                      "used, the inner one wins",
                      keys.where(), *chosen, *theta, *chosen));
    }
  }
  return chosen.value_or(default_theta);
}

RopeType find_rope_type(const JsonReader& settings, std::string_view key, const std::string& name) {
  std::string known;
  for (const RopeTypeName& row : rope_types()) {
    if (row.name == name) return row.type;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  settings.fail(
      key, fmt::format("rope type \"{}\" is not supported; known: {}", printable(name), known));
}

RopeType read_type(const JsonReader& settings, std::vector<std::string>& warnings) {
  const auto newer = settings.optional_string("rope_type");
  const auto older = settings.optional_string("type");
  if (newer && older && *newer != *older) {
    warnings.push_back(fmt::format("{}: rope_type is \"{}\" and type is \"{}\"; rope_type wins",
                                   settings.where(), printable(*newer), printable(*older)));
  }
  if (newer) return find_rope_type(settings, "rope_type", *newer);
  if (older) return find_rope_type(settings, "type", *older);
  if (has_value(settings, "factor")) {
    settings.fail("rope_type", "is absent, and a factor without a type has no meaning");
  }
  return RopeType::plain;
}

void read_llama3(const JsonReader& settings, RopeConfig& rope) {
  rope.low_freq_factor = settings.require_double("low_freq_factor", 1e-6, kMaxFactor);
  rope.high_freq_factor = settings.require_double("high_freq_factor", 1e-6, kMaxFactor);
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    settings.fail("high_freq_factor", fmt::format("is {}, expected more than low_freq_factor {}",
                                                  rope.high_freq_factor, rope.low_freq_factor));
  }
}

void read_yarn(const JsonReader& settings, RopeConfig& rope) {
  rope.beta_fast = nullable_double(settings, "beta_fast", 1e-6, kMaxFactor).value_or(32.0);
  rope.beta_slow = nullable_double(settings, "beta_slow", 1e-6, kMaxFactor).value_or(1.0);
  if (has_value(settings, "truncate")) rope.truncate = settings.require_bool("truncate");
  const double mscale = nullable_double(settings, "mscale", 0.0, kMaxFactor).value_or(0.0);
  const double mscale_all_dim =
      nullable_double(settings, "mscale_all_dim", 0.0, kMaxFactor).value_or(0.0);
  rope.attention_factor = nullable_double(settings, "attention_factor", 1e-6, kMaxFactor)
                              .value_or(yarn_attention_factor(rope.factor, mscale, mscale_all_dim));
}

// The trained context: for dynamic always the model's own length, for llama3 and yarn a key outside
// the settings, then one inside, then the model's own length.
std::int64_t read_original_positions(const JsonReader& keys, const JsonReader& settings,
                                     const ModelConfig& config) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  if (config.rope.type == RopeType::dynamic) return config.max_positions;
  if (has_value(keys, kKey)) return keys.require_int(kKey, 1, kMaxPositions);
  if (has_value(settings, kKey)) return settings.require_int(kKey, 1, kMaxPositions);
  return config.max_positions;
}

// yarn may leave the factor to the ratio of the two lengths, by an explicit null.
double read_factor(const JsonReader& settings, const ModelConfig& config) {
  if (config.rope.type == RopeType::yarn && settings.presence("factor") == Presence::null) {
    return static_cast<double>(config.max_positions) /
           static_cast<double>(config.rope.original_max_positions);
  }
  return settings.require_double("factor", 1.0, kMaxFactor);
}

void read_scaling(const JsonReader& keys, const JsonReader& settings, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  if (rope.type != RopeType::linear) {
    rope.original_max_positions = read_original_positions(keys, settings, config);
  }
  rope.factor = read_factor(settings, config);
  if (rope.type == RopeType::llama3) read_llama3(settings, rope);
  if (rope.type == RopeType::yarn) read_yarn(settings, rope);
  if (rope.type == RopeType::dynamic && rope.rotary_dim <= 2) {
    settings.fail("rope_type", "dynamic scaling needs more than 2 rotary dims in a head");
  }
}

}  // namespace

void read_rope(const JsonReader& keys, double default_theta, ModelConfig& config) {
  const auto scaling = filled_object(keys, "rope_scaling");
  const auto parameters = filled_object(keys, "rope_parameters");
  config.rope = RopeConfig{};
  config.rope.rotary_dim = config.head_dim;
  config.rope.theta = read_theta(keys, scaling, parameters, default_theta, config.warnings);
  const auto& settings = scaling ? scaling : parameters;
  if (!settings) return;
  refuse_setting(*settings, "partial_rotary_factor", 1.0);
  config.rope.type = read_type(*settings, config.warnings);
  if (scaling && parameters) {
    config.warnings.push_back(fmt::format(
        "{}: rope_scaling and rope_parameters are both given; rope_scaling decides the type ({})",
        keys.where(), rope_type_name(config.rope.type)));
  }
  if (config.rope.type != RopeType::plain) read_scaling(keys, *settings, config);
}

}  // namespace kvbench
