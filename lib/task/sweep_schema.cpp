// Definitions of task/sweep_schema.hpp. The schema says what editors can use: names, kinds, ranges
// and choices. What needs the policies or the other settings is checked when a sweep is read.
#include "task/sweep_schema.hpp"

#include <nlohmann/json.hpp>

#include "task/task.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

Json reference(const char* name) {
  return {{"$ref", std::string("#/$defs/") + name}};
}

Json list_of(const Json& items) {
  return {{"type", "array"}, {"minItems", 1}, {"items", items}};
}

Json number_schema(const Setting& setting, bool integer) {
  Json schema = {{"type", integer ? "integer" : "number"}};
  if (integer) {
    schema["minimum"] = static_cast<std::int64_t>(setting.min);
    if (setting.max < 9e18) schema["maximum"] = static_cast<std::int64_t>(setting.max);
  } else {
    schema["minimum"] = setting.min;
    schema["maximum"] = setting.max;
  }
  return schema;
}

// One value, or a list of values where that is an axis.
Json axis_of_scalars(const Json& scalar, bool numeric) {
  Json choices = Json::array({scalar});
  Json items = scalar;
  if (numeric) {
    choices.push_back(reference("range"));
    items = {{"anyOf", Json::array({scalar, reference("range")})}};
  }
  choices.push_back(list_of(items));
  return {{"anyOf", choices}};
}

Json axis_of_lists(const Json& element, bool numeric) {
  const Json scalar_list = axis_of_scalars(element, numeric);
  Json choices = scalar_list["anyOf"];
  if (numeric) choices.erase(choices.begin());  // a bare number is no list
  choices.push_back(list_of(list_of(element)));
  return {{"anyOf", choices}};
}

Json setting_schema(const Setting& setting) {
  if (setting.name == "policy") return reference("policies");
  Json schema;
  switch (setting.kind) {
    case SettingKind::flag:
      schema = axis_of_scalars({{"type", "boolean"}}, false);
      break;
    case SettingKind::integer:
      schema = axis_of_scalars(number_schema(setting, true), true);
      break;
    case SettingKind::real:
      schema = axis_of_scalars(number_schema(setting, false), true);
      break;
    case SettingKind::integers:
      schema = axis_of_lists(number_schema(setting, true), true);
      break;
    case SettingKind::reals:
      schema = axis_of_lists(number_schema(setting, false), true);
      break;
    case SettingKind::text:
    case SettingKind::choice: {
      Json text = {{"type", "string"}};
      if (setting.kind == SettingKind::choice && !setting.open_choices) {
        text["enum"] = setting.choices;
      } else {
        text["minLength"] = 1;
      }
      schema = setting.repeats ? axis_of_lists(text, false) : axis_of_scalars(text, false);
      break;
    }
  }
  Json described = {{"description", setting.help}};
  described.update(schema);
  return described;
}

Json settings_of(const TaskInfo& info) {
  const std::unique_ptr<Task> task = info.make();
  SettingSet settings;
  task->declare(settings);
  Json properties = Json::object();
  for (const Setting& setting : settings.all()) {
    if (setting.name != "policies_file") properties[setting.name] = setting_schema(setting);
  }
  return properties;
}

Json definitions() {
  const Json number = {{"type", "number"}};
  Json range = {
      {"type", "object"},
      {"properties", {{"from", number}, {"to", number}, {"step", number}, {"factor", number}}},
      {"required", {"from", "to"}},
      {"minProperties", 3},
      {"maxProperties", 3},
      {"additionalProperties", false}};
  const Json policy_string = {{"type", "string"}, {"minLength", 1}};
  Json policy_object = {
      {"type", "object"},
      {"properties", {{"name", {{"anyOf", Json::array({policy_string, list_of(policy_string)})}}}}},
      {"required", {"name"}}};
  const Json policy = {{"anyOf", Json::array({policy_string, policy_object})}};
  return {{"range", range}, {"policies", {{"anyOf", Json::array({policy, list_of(policy)})}}}};
}

// One property that tasks share: what any of them takes.
void merge_into(Json& properties, const Json& added) {
  for (const auto& [name, schema] : added.items()) {
    if (!properties.contains(name)) {
      properties[name] = schema;
    } else if (properties[name] != schema) {
      if (!properties[name].contains("x-any")) {
        properties[name] = {{"x-any", true}, {"anyOf", Json::array({properties[name]})}};
      }
      properties[name]["anyOf"].push_back(schema);
    }
  }
}

}  // namespace

Json sweep_schema() {
  Json shared = Json::object();
  Json names = Json::array();
  Json task_objects = Json::array();
  for (const TaskInfo& info : tasks()) {
    names.push_back(info.name);
    const Json own = settings_of(info);
    Json properties = {{"name", {{"const", info.name}}}};
    properties.update(own);
    task_objects.push_back({{"type", "object"},
                            {"description", info.summary},
                            {"properties", properties},
                            {"required", {"name"}},
                            {"additionalProperties", false}});
    merge_into(shared, own);
  }
  for (auto& property : shared) property.erase("x-any");
  Json one_task = Json::array({Json{{"enum", names}}});
  one_task.insert(one_task.end(), task_objects.begin(), task_objects.end());
  const Json task = {{"anyOf", one_task}};
  const Json text = {{"type", "string"}, {"minLength", 1}};
  Json partial = {
      {"task", {{"anyOf", Json::array({reference("task"), list_of(reference("task"))})}}}};
  partial.update(shared);
  const Json cells = list_of(reference("cell"));
  Json properties = {{"$schema", text},
                     {"description", text},
                     {"out", text},
                     {"include", cells},
                     {"exclude", cells}};
  for (const auto& [name, schema] : partial.items()) {
    properties[name] = {{"$ref", "#/$defs/cell/properties/" + name}};
  }
  Json shared_parts = definitions();
  shared_parts["task"] = task;
  shared_parts["cell"] = {{"type", "object"},
                          {"minProperties", 1},
                          {"properties", partial},
                          {"additionalProperties", false}};
  return {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
          {"title", "A sweep of kvbench"},
          {"type", "object"},
          {"properties", properties},
          {"required", {"task"}},
          {"additionalProperties", false},
          {"$defs", shared_parts}};
}

}  // namespace kvbench
