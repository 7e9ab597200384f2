// config.json and generation_config.json to a ModelConfig, by way of the family's reader.
#include "model/model_config.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "io/json_reader.hpp"
#include "model/families/family_keys.hpp"
#include "model/family.hpp"

namespace kvbench {
namespace {

// The family decides what is computed; "architectures" only confirms it.
std::string read_architecture(const JsonReader& keys, const FamilySpec& family,
                              std::vector<std::string>& warnings) {
  const nlohmann::json* list = keys.find("architectures");
  if (list == nullptr || list->is_null() || (list->is_array() && list->empty())) {
    return std::string(family.architectures.front());
  }
  if (!list->is_array() || !list->front().is_string()) {
    keys.fail("architectures", "expected a list of names");
  }
  auto name = list->front().get<std::string>();
  if (std::ranges::find(family.architectures, name) == family.architectures.end()) {
    warnings.push_back(fmt::format(
        "{}: architectures says {}; it is read as {}, because model_type "
        "is \"{}\"",
        keys.where(), printable(name), family.architectures.front(), family.model_type));
  }
  return name;
}

// The stop ids of generation_config.json win over those of config.json.
void read_generation_config(const std::filesystem::path& path, ModelConfig& config) {
  if (!std::filesystem::exists(path)) return;
  const nlohmann::json document = read_json_file(path);
  const JsonReader keys(document, path.string(), JsonErrors::data);
  if (auto ids = read_stop_ids(keys)) config.stop_ids = std::move(*ids);
}

}  // namespace

bool ModelConfig::slides() const {
  return std::ranges::any_of(sliding_windows,
                             [](const auto& window) { return window.has_value(); });
}

const RopeConfig* ModelConfig::rope_of(std::int64_t layer) const {
  const auto at = static_cast<std::size_t>(layer);
  if (positions != PositionKind::rotary) return nullptr;
  if (!unrotated.empty() && unrotated.at(at)) return nullptr;
  return sliding_rope && sliding_windows.at(at) ? &*sliding_rope : &rope;
}

std::int64_t ModelConfig::kv_bytes_per_token(DType dtype) const {
  return 2 * n_layers * n_kv_heads * head_dim * static_cast<std::int64_t>(dtype_size(dtype));
}

std::string_view activation_name(Activation activation) {
  switch (activation) {
    case Activation::silu:
      return "silu";
    case Activation::gelu:
      return "gelu";
    case Activation::gelu_tanh:
      return "gelu_tanh";
  }
  throw InternalError("an activation without a name");
}

std::string_view position_kind_name(PositionKind kind) {
  switch (kind) {
    case PositionKind::rotary:
      return "rotary";
    case PositionKind::alibi:
      return "alibi";
    case PositionKind::table:
      return "table";
  }
  throw InternalError("a position kind without a name");
}

ModelConfig read_model_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "config.json";
  const nlohmann::json document = read_json_file(path);
  const JsonReader keys(document, path.string(), JsonErrors::data, NullRule::as_absent);
  ModelConfig config;
  config.model_type = keys.require_string("model_type");
  const FamilySpec& family = find_family(config.model_type, path.string());
  config.architecture = read_architecture(keys, family, config.warnings);
  family.read_config(keys, config);
  read_generation_config(directory / "generation_config.json", config);
  return config;
}

}  // namespace kvbench
