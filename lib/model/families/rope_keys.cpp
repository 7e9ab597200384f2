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

// What decides beside the keys outside: rope_scaling, else rope_parameters.
struct RopeSettings {
  std::optional<JsonReader> scaling;
  std::optional<JsonReader> parameters;

  const std::optional<JsonReader>& deciding() const { return scaling ? scaling : parameters; }
};

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

std::optional<double> theta_in(const std::optional<JsonReader>& object,
                               std::string_view key = "rope_theta") {
  if (!object || !has_value(*object, key)) return std::nullopt;
  const double theta = object->require_double(key, 1.0, std::numeric_limits<double>::max());
  if (theta == 1.0) object->fail(key, "is 1, expected a number above 1");
  return theta;
}

double read_theta(const JsonReader& keys, const RopeSettings& settings,
                  const RopeDefaults& defaults, std::vector<std::string>& warnings) {
  const std::array found{theta_in(settings.scaling), theta_in(settings.parameters),
                         theta_in(std::optional<JsonReader>(keys), defaults.theta_key)};
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
  return chosen.value_or(defaults.theta);
}

// The dims of a head that rotate.
std::int64_t read_rotary_dim(const JsonReader& keys, const std::optional<JsonReader>& settings,
                             const RopeDefaults& defaults, std::int64_t head_dim) {
  constexpr std::string_view kInside = "partial_rotary_factor";
  if (defaults.partial_key.empty()) {
    if (settings) refuse_setting(*settings, kInside, 1.0);
    return head_dim;
  }
  double share = nullable_double(keys, defaults.partial_key, 0.0, 1.0).value_or(defaults.partial);
  if (settings) share = nullable_double(*settings, kInside, 0.0, 1.0).value_or(share);
  const auto dims = static_cast<std::int64_t>(static_cast<double>(head_dim) * share);
  if (dims < 2 || dims % 2 != 0) {
    keys.fail(defaults.partial_key, fmt::format("{} of {} dims in a head is {}, expected an even "
                                                "number above 0: rotary embedding turns pairs",
                                                share, head_dim, dims));
  }
  return dims;
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

std::vector<double> read_factors(const JsonReader& settings, std::string_view key,
                                 std::int64_t rotary_dim) {
  const nlohmann::json* list = settings.find(key);
  const auto n = static_cast<std::size_t>(rotary_dim / 2);
  if (list == nullptr || !list->is_array() || list->size() != n) {
    settings.fail(key, fmt::format("expected a list of {} numbers, half of the {} dims that rotate",
                                   n, rotary_dim));
  }
  std::vector<double> factors;
  for (const nlohmann::json& item : *list) {
    const double factor = item.is_number() ? item.get<double>() : 0.0;
    if (!(factor > 0.0) || factor > kMaxFactor) {
      settings.fail(key, fmt::format("holds {}, expected numbers above 0", printable(item.dump())));
    }
    factors.push_back(factor);
  }
  return factors;
}

// Where the trained context is stated, the two lengths decide over a stated factor.
void read_longrope(const JsonReader& keys, const JsonReader& settings, const RopeDefaults& defaults,
                   ModelConfig& config, RopeConfig& rope) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  rope.short_factors = read_factors(settings, "short_factor", rope.rotary_dim);
  rope.long_factors = read_factors(settings, "long_factor", rope.rotary_dim);
  std::optional<std::int64_t> original = defaults.original_max_positions;
  if (has_value(settings, kKey)) original = settings.require_int(kKey, 1, kMaxPositions);
  if (has_value(keys, kKey)) original = keys.require_int(kKey, 1, kMaxPositions);
  rope.original_max_positions = original.value_or(config.max_positions);
  if (original) {
    rope.factor = static_cast<double>(config.max_positions) /
                  static_cast<double>(rope.original_max_positions);
  } else {
    rope.factor = nullable_double(settings, "factor", 1e-6, kMaxFactor).value_or(1.0);
  }
  rope.attention_factor =
      nullable_double(settings, "attention_factor", 1e-6, kMaxFactor)
          .value_or(longrope_attention_factor(rope.factor, rope.original_max_positions));
}

// The trained context: for dynamic always the model's own length, for llama3 and yarn a key outside
// the settings, then one inside, then the model's own length.
std::int64_t read_original_positions(const JsonReader& keys, const JsonReader& settings,
                                     const ModelConfig& config, const RopeConfig& rope) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  if (rope.type == RopeType::dynamic) return config.max_positions;
  if (has_value(keys, kKey)) return keys.require_int(kKey, 1, kMaxPositions);
  if (has_value(settings, kKey)) return settings.require_int(kKey, 1, kMaxPositions);
  return config.max_positions;
}

// yarn may leave the factor to the ratio of the two lengths, by an explicit null.
double read_factor(const JsonReader& settings, const ModelConfig& config, const RopeConfig& rope) {
  if (rope.type == RopeType::yarn && settings.presence("factor") == Presence::null) {
    return static_cast<double>(config.max_positions) /
           static_cast<double>(rope.original_max_positions);
  }
  return settings.require_double("factor", 1.0, kMaxFactor);
}

void read_scaling(const JsonReader& keys, const JsonReader& settings, const ModelConfig& config,
                  RopeConfig& rope) {
  if (rope.type != RopeType::linear) {
    rope.original_max_positions = read_original_positions(keys, settings, config, rope);
  }
  rope.factor = read_factor(settings, config, rope);
  if (rope.type == RopeType::llama3) read_llama3(settings, rope);
  if (rope.type == RopeType::yarn) read_yarn(settings, rope);
  if (rope.type == RopeType::dynamic && rope.rotary_dim <= 2) {
    settings.fail("rope_type", "dynamic scaling needs more than 2 rotary dims in a head");
  }
}

RopeConfig resolve(const JsonReader& keys, const RopeSettings& settings,
                   const RopeDefaults& defaults, ModelConfig& config) {
  const auto& deciding = settings.deciding();
  RopeConfig rope;
  rope.rotary_dim = read_rotary_dim(keys, deciding, defaults, config.head_dim);
  rope.theta = read_theta(keys, settings, defaults, config.warnings);
  if (!deciding) return rope;
  rope.type = read_type(*deciding, config.warnings);
  if (settings.scaling && settings.parameters) {
    config.warnings.push_back(fmt::format(
        "{}: rope_scaling and rope_parameters are both given; rope_scaling decides the type ({})",
        keys.where(), rope_type_name(rope.type)));
  }
  if (rope.type == RopeType::longrope) {
    read_longrope(keys, *deciding, defaults, config, rope);
  } else if (rope.type != RopeType::plain) {
    read_scaling(keys, *deciding, config, rope);
  }
  return rope;
}

}  // namespace

void read_rope(const JsonReader& keys, const RopeDefaults& defaults, ModelConfig& config) {
  const RopeSettings settings{filled_object(keys, "rope_scaling"),
                              filled_object(keys, "rope_parameters")};
  config.rope = resolve(keys, settings, defaults, config);
}

void read_rope_by_layer_kind(const JsonReader& keys, const RopeDefaults& full,
                             const RopeDefaults& sliding, ModelConfig& config) {
  constexpr std::string_view kFull = "full_attention";
  constexpr std::string_view kSliding = "sliding_attention";
  const auto nested = has_value(keys, "rope_parameters")
                          ? std::optional(keys.require_object("rope_parameters"))
                          : std::nullopt;
  if (nested && (nested->find(kFull) != nullptr || nested->find(kSliding) != nullptr)) {
    config.rope = resolve(keys, {std::nullopt, filled_object(*nested, kFull)}, full, config);
    config.sliding_rope =
        resolve(keys, {std::nullopt, filled_object(*nested, kSliding)}, sliding, config);
    return;
  }
  read_rope(keys, full, config);
  config.sliding_rope = resolve(keys, {}, sliding, config);
}

}  // namespace kvbench
