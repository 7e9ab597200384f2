// Sizes, heads, activation, dtype and special ids of config.json.
#include "model/families/family_keys.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.hpp"
#include "core/printable.hpp"

namespace kvbench {
namespace {

// Bounds that keep every product of two sizes, and the KV bytes of a token, inside 63 bits.
constexpr std::int64_t kMaxSize = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxHeads = 65'536;

bool is_null(const JsonReader& keys, std::string_view key) {
  return keys.presence(key) == Presence::null;
}

std::int64_t read_size(const JsonReader& keys, std::string_view key, std::int64_t max,
                       std::optional<std::int64_t> when_absent) {
  if (when_absent && keys.presence(key) == Presence::absent) return *when_absent;
  return keys.require_int(key, 1, max);
}

void read_head_counts(const JsonReader& keys, const FamilyDefaults& defaults, ModelConfig& config) {
  const std::string_view key = defaults.names.n_kv_heads;
  config.n_heads = read_size(keys, defaults.names.n_heads, kMaxHeads, defaults.n_heads);
  if (is_null(keys, key)) {
    if (!defaults.n_kv_heads_may_be_null) keys.fail(key, "is null, expected an integer");
    config.n_kv_heads = config.n_heads;
  } else {
    config.n_kv_heads =
        keys.optional_int(key, 1, kMaxHeads).value_or(defaults.n_kv_heads.value_or(config.n_heads));
  }
  if (config.n_heads % config.n_kv_heads != 0) {
    keys.fail(key, fmt::format("{} attention heads are not a multiple of {} KV heads{}",
                               config.n_heads, config.n_kv_heads,
                               keys.find(key) == nullptr ? " (the default of this family)" : ""));
  }
}

void read_head_dim(const JsonReader& keys, const FamilyDefaults& defaults, ModelConfig& config) {
  constexpr std::string_view kKey = "head_dim";
  std::optional<std::int64_t> given;
  if (defaults.head_dim && is_null(keys, kKey)) keys.fail(kKey, "is null, expected an integer");
  given = keys.optional_int(kKey, 1, kMaxHeads);
  if (!given) given = defaults.head_dim;
  if (!given && config.hidden_size % config.n_heads != 0) {
    keys.fail(defaults.names.hidden_size,
              fmt::format("{} is not a multiple of {} attention heads, and head_dim is not given",
                          config.hidden_size, config.n_heads));
  }
  config.head_dim = given.value_or(config.hidden_size / config.n_heads);
  if (config.head_dim % 2 != 0 || config.head_dim > kMaxHeads) {
    keys.fail(kKey, fmt::format("is {}, expected an even number of at most {}: rotary embedding "
                                "turns pairs of dims",
                                config.head_dim, kMaxHeads));
  }
}

Activation read_activation(const JsonReader& keys, const FamilyDefaults& defaults) {
  struct Row {
    std::string_view name;
    Activation activation;
  };
  constexpr std::array kRows{
      Row{"silu", Activation::silu},           Row{"swish", Activation::silu},
      Row{"gelu", Activation::gelu},           Row{"gelu_new", Activation::gelu_tanh},
      Row{"gelu_fast", Activation::gelu_tanh}, Row{"gelu_pytorch_tanh", Activation::gelu_tanh},
  };
  const std::string name =
      keys.optional_string(defaults.names.activation).value_or(std::string(defaults.activation));
  for (const Row& row : kRows) {
    if (row.name == name) return row.activation;
  }
  std::string known;
  for (const Row& row : kRows) known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  keys.fail(defaults.names.activation,
            fmt::format("\"{}\" is not supported; known: {}", printable(name), known));
}

void read_special_ids(const JsonReader& keys, const FamilyDefaults& defaults, ModelConfig& config) {
  config.bos_id = defaults.bos_id;
  if (is_null(keys, "bos_token_id")) {
    config.bos_id.reset();
  } else if (const auto id = keys.optional_int("bos_token_id", 0, kMaxSize)) {
    config.bos_id = static_cast<std::int32_t>(*id);
  }
  config.stop_ids.clear();
  if (auto ids = read_stop_ids(keys)) {
    config.stop_ids = std::move(*ids);
  } else if (defaults.stop_id) {
    config.stop_ids.push_back(*defaults.stop_id);
  }
}

}  // namespace

void read_shared_keys(const JsonReader& keys, const FamilyDefaults& defaults, ModelConfig& config) {
  const KeyNames& names = defaults.names;
  refuse_unhandled(keys, defaults.handled);
  config.vocab_size = read_size(keys, "vocab_size", kMaxSize, defaults.vocab_size);
  config.hidden_size = keys.require_int(names.hidden_size, 1, kMaxSize);
  config.n_layers = keys.require_int(names.n_layers, 1, kMaxLayers);
  if (defaults.ffn_times_hidden > 0 && keys.presence(names.ffn_size) != Presence::value) {
    config.ffn_size = defaults.ffn_times_hidden * config.hidden_size;
  } else {
    config.ffn_size = keys.require_int(names.ffn_size, 1, kMaxSize);
  }
  read_head_counts(keys, defaults, config);
  read_head_dim(keys, defaults, config);
  config.attention_scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  config.max_positions =
      keys.optional_int(names.max_positions, 1, kMaxSize).value_or(defaults.max_positions);
  config.norm = NormKind::rms;
  config.norm_eps = keys.optional_double(names.norm_eps, 0.0, 1.0).value_or(defaults.norm_eps);
  config.activation = read_activation(keys, defaults);
  config.tie_word_embeddings = keys.optional_bool("tie_word_embeddings").value_or(defaults.tied);
  config.declared_dtype = read_declared_dtype(keys);
  config.sliding_windows.assign(static_cast<std::size_t>(config.n_layers), std::nullopt);
  read_special_ids(keys, defaults, config);
}

// "dtype" is the newer name of "torch_dtype"; "torch.float16" is an older spelling of "float16".
std::optional<DType> read_declared_dtype(const JsonReader& keys) {
  const std::string_view key = keys.presence("dtype") == Presence::value ? "dtype" : "torch_dtype";
  if (keys.presence(key) != Presence::value) return std::nullopt;
  const std::string written = keys.require_string(key);
  std::string_view name = written;
  if (name.starts_with("torch.")) name.remove_prefix(std::string_view("torch.").size());
  if (name == "auto") return std::nullopt;
  if (name == "float32" || name == "float") return DType::f32;
  if (name == "float16" || name == "half") return DType::f16;
  if (name == "bfloat16") return DType::bf16;
  keys.fail(key, fmt::format("\"{}\" is not supported; known: float32, float16, bfloat16",
                             printable(written)));
}

std::optional<std::int64_t> read_sliding_window(const JsonReader& keys,
                                                std::optional<std::int64_t> when_absent) {
  switch (keys.presence("sliding_window")) {
    case Presence::absent:
      return when_absent;
    case Presence::null:
      return std::nullopt;
    case Presence::value:
      break;
  }
  return keys.require_int("sliding_window", 1, kMaxSize);
}

std::optional<std::vector<std::int32_t>> read_stop_ids(const JsonReader& keys) {
  if (is_null(keys, "eos_token_id")) return std::vector<std::int32_t>{};
  const auto ids = keys.optional_int_or_ints("eos_token_id", 0, kMaxSize);
  if (!ids) return std::nullopt;
  std::vector<std::int32_t> unique;
  for (const std::int64_t id : *ids) {
    const auto narrow = static_cast<std::int32_t>(id);
    if (std::find(unique.begin(), unique.end(), narrow) == unique.end()) unique.push_back(narrow);
  }
  return unique;
}

std::vector<float> alibi_slopes(std::int64_t n_heads, double bias_max) {
  std::int64_t n = 1;
  while (n < n_heads) n *= 2;
  const auto slope = [&](std::int64_t i) {
    return static_cast<float>(
        std::exp2(-bias_max * static_cast<double>(i + 1) / static_cast<double>(n)));
  };
  std::vector<float> slopes;
  if (n == n_heads) {
    for (std::int64_t i = 0; i < n; ++i) slopes.push_back(slope(i));
    return slopes;
  }
  for (std::int64_t i = 1; i < n; i += 2) slopes.push_back(slope(i));
  for (std::int64_t i = 0; i < n; i += 2) slopes.push_back(slope(i));
  slopes.resize(static_cast<std::size_t>(n_heads));
  return slopes;
}

}  // namespace kvbench
