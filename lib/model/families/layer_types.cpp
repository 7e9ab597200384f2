// Which layers slide, where config.json decides it layer by layer.
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "model/families/family_keys.hpp"

namespace kvbench {
namespace {

constexpr std::string_view kFull = "full_attention";
constexpr std::string_view kSliding = "sliding_attention";

// [n_layers] whether "layer_types" lets the layer slide; nothing: absent or null.
std::optional<std::vector<bool>> read_layer_types(const JsonReader& keys, std::int64_t n_layers) {
  const nlohmann::json* list = keys.find("layer_types");
  if (list == nullptr || list->is_null()) return std::nullopt;
  if (!list->is_array() || list->size() != static_cast<std::size_t>(n_layers)) {
    keys.fail("layer_types", fmt::format("expected a list of {} layer types", n_layers));
  }
  std::vector<bool> slides;
  for (const nlohmann::json& item : *list) {
    const std::string name = item.is_string() ? item.get<std::string>() : item.dump();
    if (name != kFull && name != kSliding) {
      keys.fail("layer_types", fmt::format("\"{}\" is not supported; known: {}, {}",
                                           printable(name), kFull, kSliding));
    }
    slides.push_back(name == kSliding);
  }
  return slides;
}

}  // namespace

void read_sliding_pattern(const JsonReader& keys, std::optional<std::int64_t> window,
                          std::int64_t default_pattern, ModelConfig& config) {
  constexpr std::int64_t kMaxPattern = 10'000;
  std::int64_t pattern = default_pattern;
  for (const char* key : {"_sliding_window_pattern", "sliding_window_pattern"}) {
    pattern = keys.optional_int(key, 1, kMaxPattern).value_or(pattern);
  }
  const auto listed = read_layer_types(keys, config.n_layers);
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    const bool slides = listed ? (*listed)[at] : (layer + 1) % pattern != 0;
    config.sliding_windows[at] = slides ? window : std::nullopt;
  }
}

void read_upper_sliding_layers(const JsonReader& keys, ModelConfig& config) {
  constexpr std::int64_t kDefaultWindow = 4096;
  constexpr std::int64_t kDefaultFirstLayer = 28;
  const bool use = keys.optional_bool("use_sliding_window").value_or(false);
  const auto window = use ? read_sliding_window(keys, kDefaultWindow) : std::nullopt;
  const std::int64_t first_layer =
      keys.optional_int("max_window_layers", 0, INT64_C(1) << 31).value_or(kDefaultFirstLayer);
  const auto listed = read_layer_types(keys, config.n_layers);
  for (std::int64_t layer = 0; layer < config.n_layers; ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    const bool slides = listed ? (*listed)[at] : window && layer >= first_layer;
    if (slides && !window) {
      keys.fail("layer_types", fmt::format("layer {} is {}, but there is no sliding_window (or "
                                           "use_sliding_window is false)",
                                           layer, kSliding));
    }
    config.sliding_windows[at] = slides ? window : std::nullopt;
  }
}

void check_layer_types(const JsonReader& keys, const ModelConfig& config) {
  const auto listed = read_layer_types(keys, config.n_layers);
  if (!listed) return;
  for (std::size_t layer = 0; layer < listed->size(); ++layer) {
    const bool slides = config.sliding_windows[layer].has_value();
    if ((*listed)[layer] != slides) {
      keys.fail("layer_types",
                fmt::format("layer {} is {}, but in this family every layer is {} "
                            "with this sliding_window",
                            layer, (*listed)[layer] ? kSliding : kFull, slides ? kSliding : kFull));
    }
  }
}

}  // namespace kvbench
