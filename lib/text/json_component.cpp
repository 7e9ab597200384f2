// Typed access to the components of tokenizer.json.
#include "text/json_component.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"

namespace kvbench {

JsonComponent::JsonComponent(const nlohmann::json& value, std::string file, std::string key)
    : value_(&value),
      file_(std::move(file)),
      key_(std::move(key)),
      members_(value, where(), JsonErrors::data, NullRule::as_absent),
      type_(members_.require_string("type")) {}

std::string JsonComponent::where() const {
  return file_ + ": key " + key_;
}

void JsonComponent::for_each(std::string_view list_key,
                             const std::function<void(const JsonComponent&)>& use) const {
  if (type_ != "Sequence") return use(*this);
  const nlohmann::json* list = members_.find(list_key);
  if (list == nullptr || !list->is_array()) {
    fail(fmt::format("expected an array \"{}\"", list_key));
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    const JsonComponent element((*list)[i], file_, fmt::format("{}.{}[{}]", key_, list_key, i));
    element.for_each(list_key, use);
  }
}

Regex JsonComponent::pattern() const {
  const JsonReader pattern = members_.require_object("pattern");
  if (const auto text = pattern.optional_string("String")) return Regex::literal(*text, where());
  return Regex::pattern(pattern.require_string("Regex"), where());
}

std::string JsonComponent::string_pattern() const {
  return members_.require_object("pattern").require_string("String");
}

void JsonComponent::unsupported_type(std::string_view supported) const {
  fail(fmt::format("type \"{}\" is not supported here; supported: {}", type_, supported));
}

void JsonComponent::fail(std::string_view message) const {
  data_error("{}: {}", where(), message);
}

}  // namespace kvbench
