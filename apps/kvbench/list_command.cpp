// `kvbench list`: what this build knows, read from the registries.
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/kvbench/commands.hpp"
#include "backend/registry.hpp"
#include "dataset/registry.hpp"
#include "metric/answer_metric.hpp"
#include "model/family.hpp"
#include "policy/describe.hpp"
#include "policy/registry.hpp"
#include "task/ppl_protocol.hpp"
#include "task/task.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

Json policy_rows() {
  Json rows = Json::array();
  for (const PolicyInfo& info : policies()) {
    Json options = Json::array();
    for (const PolicyOption& option : info.options) {
      options.push_back(
          {{"key", option.key},
           {"default", option.fallback.empty() ? Json() : Json(option.fallback)},
           {"by_variant", option.by_variant.empty() ? Json() : Json(option.by_variant)},
           {"choices", option.choices.empty() ? Json() : Json(option.choices)},
           {"summary", option.summary}});
    }
    rows.push_back({{"name", info.name},
                    {"usage", info.usage},
                    {"summary", info.summary},
                    {"source", info.source},
                    {"options", options}});
  }
  return rows;
}

template <class Row>
Json named_rows(std::span<const Row> table) {
  Json rows = Json::array();
  for (const Row& row : table) rows.push_back({{"name", row.name}, {"summary", row.summary}});
  return rows;
}

Json registries() {
  Json family_rows = Json::array();
  for (const FamilySpec& family : families()) {
    family_rows.push_back({{"name", family.model_type}, {"summary", family.summary}});
  }
  return {{"policies", policy_rows()},
          {"families", family_rows},
          {"backends", named_rows(backends())},
          {"data formats", named_rows(corpus_formats())},
          {"tasks", named_rows(tasks())},
          {"ppl protocols", named_rows(ppl_protocols())},
          {"answer metrics", named_rows(answer_metrics())}};
}

// The table of model families in README.md.
void print_family_table() {
  fmt::print("| model_type | models | cache per 1K tokens, bf16 |\n|---|---|---|\n");
  for (const FamilySpec& family : families()) {
    constexpr std::int64_t kTokens = 1024;
    constexpr std::int64_t kMebibyte = 1024 * 1024;
    const std::int64_t bytes = kTokens * family.example.kv_bytes_per_token(2);
    fmt::print("| `{}` | {} | {}: {} MiB |\n", family.model_type, family.summary,
               family.example.name, bytes / kMebibyte);
  }
}

void print_text(const Json& all) {
  for (const auto& [title, rows] : all.items()) {
    fmt::print("{}\n", title);
    for (const Json& row : rows) {
      fmt::print("  {:<12} {}\n", row["name"].get<std::string>(),
                 row["summary"].get<std::string>());
      if (!row.contains("options")) continue;
      fmt::print("  {:<12}   as in {}; {}\n", "", row["usage"].get<std::string>(),
                 row["source"].get<std::string>());
      for (const Json& option : row["options"]) {
        const std::string fallback =
            option["default"].is_null() ? "required" : option["default"].get<std::string>();
        fmt::print("  {:<12}   {} ({}): {}\n", "", option["key"].get<std::string>(), fallback,
                   option["summary"].get<std::string>());
      }
    }
  }
}

}  // namespace

void add_list_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("list", "Policies, model families, backends, data formats, protocols");
  const auto json = std::make_shared<bool>(false);
  const auto policy_table = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print one JSON document");
  command->add_flag("--policy-table", *policy_table, "Print the policies as Markdown");
  const auto family_table = std::make_shared<bool>(false);
  command->add_flag("--family-table", *family_table, "Print the model families as Markdown");
  command->footer("Examples:\n  kvbench list\n  kvbench list --json");
  command->callback([json, policy_table, family_table] {
    if (*policy_table) {
      fmt::print("{}", policies_markdown());
      return;
    }
    if (*family_table) {
      print_family_table();
      return;
    }
    const Json all = registries();
    if (*json) {
      fmt::print("{}\n", all.dump(1));
    } else {
      print_text(all);
    }
  });
}

}  // namespace kvbench
