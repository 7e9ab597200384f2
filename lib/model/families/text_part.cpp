// text_config inside config.json.
#include "model/families/text_part.hpp"

#include <optional>
#include <string>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "model/families/family_keys.hpp"

namespace kvbench {

void read_text_part(const JsonReader& keys, const FamilySpec& text, ModelConfig& config) {
  refuse_unhandled(keys, {});
  const JsonReader inner = keys.require_object("text_config");
  const auto type = inner.optional_string("model_type");
  if (type && *type != text.model_type) {
    inner.fail("model_type", fmt::format("\"{}\" is not supported here; expected {}",
                                         printable(*type), text.model_type));
  }
  text.read_config(inner, config);
  if (inner.presence("eos_token_id") == Presence::absent) {
    if (auto ids = read_stop_ids(keys)) config.stop_ids = *std::move(ids);
  }
  if (!config.declared_dtype) config.declared_dtype = read_declared_dtype(keys);
}

}  // namespace kvbench
