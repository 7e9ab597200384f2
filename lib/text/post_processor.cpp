// Reading of TemplateProcessing's `single`: special tokens before and after the sequence.
#include "text/post_processor.hpp"

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "text/json_component.hpp"

namespace kvbench {
namespace {

struct Template {
  std::vector<std::string> before;
  std::vector<std::string> after;
};

Template read_template(const JsonComponent& spec) {
  const nlohmann::json* single = spec.members().find("single");
  if (single == nullptr || !single->is_array()) spec.fail("expected an array \"single\"");
  Template result;
  bool sequence_seen = false;
  for (const auto& element : *single) {
    const JsonReader reader(element, spec.where() + ".single", JsonErrors::data);
    if (reader.presence("Sequence") == Presence::value) {
      sequence_seen = true;
      continue;
    }
    const std::string token = reader.require_object("SpecialToken").require_string("id");
    (sequence_seen ? result.after : result.before).push_back(token);
  }
  return result;
}

}  // namespace

std::optional<std::string> bos_of_post_processor(const nlohmann::json& spec,
                                                 const std::string& file,
                                                 std::vector<std::string>& warnings) {
  std::optional<std::string> bos;
  if (spec.is_null()) return bos;
  JsonComponent(spec, file, "post_processor").for_each("processors", [&](const auto& step) {
    if (step.type() == "ByteLevel") return;  // changes offsets only
    if (step.type() != "TemplateProcessing") {
      step.unsupported_type("ByteLevel, TemplateProcessing, Sequence");
    }
    const Template tokens = read_template(step);
    if (tokens.before.size() > 1 || (bos && !tokens.before.empty())) {
      step.fail("more than one special token before the text is not supported");
    }
    if (!tokens.before.empty()) bos = tokens.before.front();
    for (const std::string& token : tokens.after) {
      warnings.push_back(fmt::format(
          "{}: the post-processor would put {} after a text; kvbench does not", file, token));
    }
  });
  return bos;
}

}  // namespace kvbench
