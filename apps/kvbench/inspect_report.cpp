// Collects the sections of an inspection; the text form walks the same document.
#include "apps/kvbench/inspect_report.hpp"

#include <fmt/core.h>

#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "io/checkpoint.hpp"
#include "io/safetensors.hpp"
#include "model/family.hpp"
#include "model/model_config.hpp"
#include "model/model_tensors.hpp"
#include "model/sink_rows.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMaxShownValues = 32;

template <class T>
Json null_or(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json describe_rope(const RopeConfig& rope) {
  Json json = {{"rope_type", rope_type_name(rope.type)},
               {"rope_theta", rope.theta},
               {"rotary_dim", rope.rotary_dim},
               {"interleaved", rope.interleaved},
               {"attention_factor", rope.attention_factor}};
  if (rope.type == RopeType::plain) return json;
  json["factor"] = rope.factor;
  if (rope.type == RopeType::linear) return json;
  json["original_max_position_embeddings"] = rope.original_max_positions;
  if (rope.type == RopeType::llama3) {
    json["low_freq_factor"] = rope.low_freq_factor;
    json["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.type == RopeType::longrope) {
    json["short_factor"] = rope.short_factors;
    json["long_factor"] = rope.long_factors;
  }
  if (rope.type == RopeType::yarn) {
    json["beta_fast"] = rope.beta_fast;
    json["beta_slow"] = rope.beta_slow;
    json["truncate"] = rope.truncate;
  }
  return json;
}

// The rotary settings of the layers that slide, where they have their own, or of the others.
Json describe_layer_rope(const ModelConfig& config, bool sliding) {
  if (config.positions != PositionKind::rotary) return nullptr;
  if (!sliding) return describe_rope(config.rope);
  return config.sliding_rope ? describe_rope(*config.sliding_rope) : Json(nullptr);
}

Json unrotated_layers(const ModelConfig& config) {
  Json layers = Json::array();
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    if (config.rope_of(layer) == nullptr) layers.push_back(layer);
  }
  return layers;
}

Json describe_config(const ModelConfig& config) {
  // Every family known so far has one window for all of its sliding layers.
  std::optional<std::int64_t> window;
  Json sliding_layers = Json::array();
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    if (!config.window_of(layer)) continue;
    window = config.window_of(layer);
    sliding_layers.push_back(layer);
  }
  Json dtype = nullptr;
  if (config.declared_dtype) dtype = dtype_name(*config.declared_dtype);
  return {{"model_type", config.model_type},
          {"architecture", config.architecture},
          {"vocab_size", config.vocab_size},
          {"hidden_size", config.hidden_size},
          {"intermediate_size", config.ffn_size},
          {"num_hidden_layers", config.n_layers},
          {"num_attention_heads", config.n_heads},
          {"num_key_value_heads", config.n_kv_heads},
          {"head_dim", config.head_dim},
          {"max_position_embeddings", config.max_positions},
          {"norm_eps", config.norm_eps},
          {"hidden_act", activation_name(config.activation)},
          {"qkv_bias", config.qkv_bias},
          {"o_bias", config.o_bias},
          {"mlp_bias", config.mlp_bias},
          {"qk_norm", config.qk_norm != QkNorm::none},
          {"tie_word_embeddings", config.tie_word_embeddings},
          {"sliding_window", null_or(window)},
          {"sliding_layers", sliding_layers},
          {"positions", position_kind_name(config.positions)},
          {"rope_parameters", describe_layer_rope(config, false)},
          {"sliding_rope_parameters", describe_layer_rope(config, true)},
          {"unrotated_layers", unrotated_layers(config)},
          {"num_experts", config.n_experts},
          {"logit_scale", config.logit_scale},
          {"bos_token_id", null_or(config.bos_id)},
          {"eos_token_id", config.stop_ids},
          {"declared_dtype", dtype}};
}

Json describe_frequencies(const ModelConfig& config, std::int64_t length) {
  if (length == 0) length = config.max_positions;
  const RopeFrequencies frequencies = rope_frequencies(config.rope, length);
  return {{"length", length},
          {"attention_factor", frequencies.attention_factor},
          {"inv_freq", frequencies.inv_freq}};
}

// JSON has no word for these, and null would hide which it is.
Json finite_or_name(float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json tensor_values(const std::string& name, const TensorView& tensor, const Json& report) {
  if (tensor.dtype != DType::f32 && tensor.dtype != DType::f16 && tensor.dtype != DType::bf16) {
    data_error("{}: dtype {} of {} is not supported: its values cannot be shown",
               report.at("path").get<std::string>(), dtype_name(tensor.dtype), printable(name));
  }
  std::vector<float> values(static_cast<std::size_t>(tensor.element_count()));
  to_floats(tensor, 0, tensor.element_count(), values.data());
  Json list = Json::array();
  for (const float value : values) list.push_back(finite_or_name(value));
  return list;
}

// Appends the tensor to report["tensors"] and to the totals.
void add_tensor(const std::string& name, const TensorView& tensor, bool values, Json& report) {
  Json row = {{"name", name},
              {"dtype", dtype_name(tensor.dtype)},
              {"shape", tensor.shape},
              {"bytes", tensor.byte_count()}};
  if (values && tensor.element_count() <= kMaxShownValues) {
    row["values"] = tensor_values(name, tensor, report);
  }
  report["tensors"].push_back(std::move(row));
  report["tensor_count"] = report["tensors"].size();
  report["tensor_bytes"] = report.value("tensor_bytes", std::size_t{0}) + tensor.byte_count();
}

void add_warnings(const std::vector<std::string>& warnings, Json& report) {
  for (const std::string& warning : warnings) report["warnings"].push_back(warning);
}

void start_tensors(Json& report) {
  report["tensors"] = Json::array();
  report["tensor_count"] = 0;
  report["tensor_bytes"] = 0;
}

void inspect_file(const InspectRequest& request, Json& report) {
  const SafetensorsFile file = SafetensorsFile::open(request.path);
  start_tensors(report);
  for (const NamedTensor& tensor : file.tensors()) {
    add_tensor(tensor.name, tensor.view, request.values, report);
  }
  add_warnings(file.warnings(), report);
}

void add_config(const ModelConfig& config, const InspectRequest& request, Json& report) {
  report["config"] = describe_config(config);
  if (request.rope && config.positions != PositionKind::rotary) {
    data_error("{}: this {} model has no rotary frequencies: its positions are of the kind {}",
               request.path.string(), config.model_type, position_kind_name(config.positions));
  }
  if (request.rope) report["rope"] = describe_frequencies(config, request.rope_length);
  report["kv_bytes_per_token"] = {{"bf16", config.kv_bytes_per_token(DType::bf16)},
                                  {"f32", config.kv_bytes_per_token(DType::f32)}};
  add_warnings(config.warnings, report);
}

void inspect_directory(const InspectRequest& request, Json& report) {
  namespace fs = std::filesystem;
  const bool has_weights = fs::exists(request.path / "model.safetensors") ||
                           fs::exists(request.path / "model.safetensors.index.json");
  const bool has_config = fs::exists(request.path / "config.json") || !has_weights;
  ModelConfig config;
  if (has_config) {
    config = read_model_config(request.path);
    add_config(config, request, report);
  }
  if (!has_weights) {
    report["warnings"].push_back(
        fmt::format("{}: no model.safetensors and no model.safetensors.index.json; only the "
                    "configuration was read",
                    request.path.string()));
    return;
  }
  const Checkpoint checkpoint = Checkpoint::open(request.path);
  if (has_config) {
    const auto tensors =
        collect_tensors(config, find_family(config.model_type), checkpoint, request.sink_tensor);
    const SinkRows sinks({request.sink_tensor, {}}, checkpoint, config.hidden_size);
    if (sinks.count() > 0) report["learned_sinks"] = sinks.count();
    report["parameters"] = parameter_count(tensors);
    report["lm_head_is_embedding"] = tensors.lm_head_is_embedding;
    add_warnings(tensors.warnings, report);
  }
  start_tensors(report);
  for (const std::string& name : checkpoint.names()) {
    add_tensor(name, checkpoint.require(name), request.values, report);
  }
  add_warnings(checkpoint.warnings(), report);
}

std::string tensor_line(const Json& row) {
  std::string line =
      fmt::format("  {:<8} {:>12} B  {} {}\n", row.at("dtype").get<std::string>(),
                  row.at("bytes").get<std::size_t>(), printable(row.at("name").get<std::string>()),
                  to_string(row.at("shape").get<Shape>()));
  if (!row.contains("values")) return line;
  line += "   ";
  for (const Json& value : row.at("values")) {
    line += value.is_string() ? fmt::format(" {}", value.get<std::string>())
                              : fmt::format(" {:.9g}", value.get<float>());
  }
  return line + "\n";
}

std::string config_text(const Json& config) {
  std::string text;
  for (const auto& [key, value] : config.items()) {
    text += fmt::format("  {:<24} {}\n", key,
                        value.is_string() ? printable(value.get<std::string>()) : value.dump());
  }
  return text;
}

std::string rope_text(const Json& rope) {
  std::string text =
      fmt::format("rotary frequencies at {} tokens, attention factor {:.9g}\n",
                  rope.at("length").get<std::int64_t>(), rope.at("attention_factor").get<double>());
  const Json& inv_freq = rope.at("inv_freq");
  for (std::size_t pair = 0; pair < inv_freq.size(); ++pair) {
    text += fmt::format("  inv_freq[{}] = {:.9g}\n", pair, inv_freq[pair].get<double>());
  }
  return text;
}

}  // namespace

nlohmann::ordered_json inspect_model(const InspectRequest& request) {
  Json report = {{"path", request.path.string()}, {"warnings", Json::array()}};
  if (!std::filesystem::exists(request.path)) {
    data_error("{}: no such file or directory", request.path.string());
  }
  if (std::filesystem::is_directory(request.path)) {
    inspect_directory(request, report);
  } else {
    inspect_file(request, report);
  }
  if (request.rope && !report.contains("rope")) {
    data_error("{}: rotary frequencies need a config.json, and there is none",
               request.path.string());
  }
  return report;
}

std::string inspect_text(const nlohmann::ordered_json& report) {
  std::string text = report.at("path").get<std::string>() + "\n";
  if (report.contains("config")) text += "config, resolved\n" + config_text(report.at("config"));
  if (report.contains("rope")) text += rope_text(report.at("rope"));
  if (report.contains("kv_bytes_per_token")) {
    const Json& kv_bytes = report.at("kv_bytes_per_token");
    text += fmt::format("KV cache per token: {} bytes in bf16, {} bytes in f32\n",
                        kv_bytes.at("bf16").get<std::int64_t>(),
                        kv_bytes.at("f32").get<std::int64_t>());
  }
  if (report.contains("tensors")) {
    text += "tensors\n";
    for (const Json& row : report.at("tensors")) text += tensor_line(row);
    text +=
        fmt::format("tensors in all: {}, {} bytes\n", report.at("tensor_count").get<std::size_t>(),
                    report.at("tensor_bytes").get<std::size_t>());
  }
  if (report.contains("parameters")) {
    text +=
        fmt::format("{} parameters; lm_head is {}\n", report.at("parameters").get<std::int64_t>(),
                    report.at("lm_head_is_embedding").get<bool>() ? "the embedding (tied)"
                                                                  : "a matrix of its own");
  }
  if (report.contains("learned_sinks")) {
    text += fmt::format("{} learned sinks\n", report.at("learned_sinks").get<std::int64_t>());
  }
  for (const Json& warning : report.at("warnings")) {
    text += fmt::format("warning: {}\n", warning.get<std::string>());
  }
  return text;
}

}  // namespace kvbench
