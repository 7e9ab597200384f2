// Sizes, heads, activation, dtype and special ids of config.json, and the settings that are
// refused.
#include "model/families/family_keys.hpp"

#include <algorithm>
#include <array>
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

void read_head_counts(const JsonReader& keys, const FamilyDefaults& defaults, ModelConfig& config) {
  constexpr std::string_view kKey = "num_key_value_heads";
  config.n_heads = keys.require_int("num_attention_heads", 1, kMaxHeads);
  if (is_null(keys, kKey) && defaults.n_kv_heads_may_be_null) {
    config.n_kv_heads = config.n_heads;
  } else {
    config.n_kv_heads = keys.optional_int(kKey, 1, kMaxHeads)
                            .value_or(defaults.n_kv_heads.value_or(config.n_heads));
  }
  if (config.n_heads % config.n_kv_heads != 0) {
    keys.fail(kKey, fmt::format("{} attention heads are not a multiple of {} KV heads{}",
                                config.n_heads, config.n_kv_heads,
                                keys.find(kKey) == nullptr ? " (the default of this family)" : ""));
  }
}

void read_head_dim(const JsonReader& keys, const FamilyDefaults& defaults, ModelConfig& config) {
  constexpr std::string_view kKey = "head_dim";
  std::optional<std::int64_t> given;
  if (defaults.head_dim || !is_null(keys, kKey)) given = keys.optional_int(kKey, 1, kMaxHeads);
  if (!given) given = defaults.head_dim;
  if (!given && config.hidden_size % config.n_heads != 0) {
    keys.fail("hidden_size",
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

Activation read_activation(const JsonReader& keys) {
  struct Row {
    std::string_view name;
    Activation activation;
  };
  constexpr std::array kRows{
      Row{"silu", Activation::silu},           Row{"swish", Activation::silu},
      Row{"gelu", Activation::gelu},           Row{"gelu_new", Activation::gelu_tanh},
      Row{"gelu_fast", Activation::gelu_tanh}, Row{"gelu_pytorch_tanh", Activation::gelu_tanh},
  };
  const std::string name = keys.optional_string("hidden_act").value_or("silu");
  for (const Row& row : kRows) {
    if (row.name == name) return row.activation;
  }
  std::string known;
  for (const Row& row : kRows) known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  keys.fail("hidden_act",
            fmt::format("\"{}\" is not supported; known: {}", printable(name), known));
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

// Settings by which relatives of Llama change the arithmetic under the same tensor names.
void refuse_relatives(const JsonReader& keys) {
  struct Row {
    std::string_view key;
    std::optional<double> neutral;
  };
  constexpr std::array kRows{
      Row{"quantization_config", {}},    Row{"compression_config", {}},
      Row{"num_local_experts", 0.0},     Row{"num_experts", 0.0},
      Row{"partial_rotary_factor", 1.0}, Row{"rope_interleaved", {}},
      Row{"attn_logit_softcapping", {}}, Row{"final_logit_softcapping", {}},
      Row{"attention_multiplier", {}},   Row{"embedding_multiplier", 1.0},
      Row{"residual_multiplier", 1.0},   Row{"logits_scaling", 1.0},
      Row{"logit_scale", 1.0},           Row{"alibi", {}},
      Row{"parallel_attn", {}},          Row{"use_parallel_residual", {}},
      Row{"use_logn_attn", {}},          Row{"use_mrope", {}},
  };
  for (const Row& row : kRows) refuse_setting(keys, row.key, row.neutral);
}

}  // namespace

void read_shared_keys(const JsonReader& keys, const FamilyDefaults& defaults, ModelConfig& config) {
  refuse_relatives(keys);
  config.vocab_size = keys.require_int("vocab_size", 1, kMaxSize);
  config.hidden_size = keys.require_int("hidden_size", 1, kMaxSize);
  config.ffn_size = keys.require_int("intermediate_size", 1, kMaxSize);
  config.n_layers = keys.require_int("num_hidden_layers", 1, kMaxLayers);
  read_head_counts(keys, defaults, config);
  read_head_dim(keys, defaults, config);
  config.max_positions =
      keys.optional_int("max_position_embeddings", 1, kMaxSize).value_or(defaults.max_positions);
  config.norm = NormKind::rms;
  config.norm_eps = keys.optional_double("rms_norm_eps", 0.0, 1.0).value_or(defaults.norm_eps);
  config.activation = read_activation(keys);
  config.tie_word_embeddings = keys.optional_bool("tie_word_embeddings").value_or(false);
  config.declared_dtype = read_declared_dtype(keys);
  config.sliding_windows.assign(static_cast<std::size_t>(config.n_layers), std::nullopt);
  read_special_ids(keys, defaults, config);
}

void refuse_setting(const JsonReader& keys, std::string_view key, std::optional<double> neutral) {
  const nlohmann::json* value = keys.find(key);
  if (value == nullptr || value->is_null()) return;
  if (value->is_boolean() && !value->get<bool>()) return;
  if (value->is_structured() && value->empty()) return;
  if (value->is_number() && neutral && value->get<double>() == *neutral) return;
  keys.fail(key,
            "is set, which changes the model's arithmetic in a way kvbench does not implement "
            "for this family");
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

}  // namespace kvbench
