// Feeds arbitrary text to the expansion of sweep configurations. What is refused is a ConfigError;
// what is accepted has cells, whose settings hold values of their kinds, and expands again alike.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "config/sweep_config.hpp"
#include "core/error.hpp"
#include "io/json_file.hpp"

namespace {

void require(bool promise) {
  if (!promise) std::abort();
}

struct Task {
  std::string model;
  std::int64_t tokens = 0;
  double share = 0.0;
  bool strict = false;
  std::vector<std::int64_t> lengths;
  std::vector<std::string> ids;
  std::vector<std::string> policies;
  kvbench::SettingSet settings;

  Task() {
    settings.text("model", model, "").path = kvbench::PathKind::file;
    settings.integer("tokens", tokens, 0, 100, "");
    settings.real("share", share, 0, 1, "");
    settings.flag("strict", strict, "");
    settings.integers("lengths", lengths, 1, 9, "");
    settings.texts("ids", ids, "ID", "");
    settings.texts("policy", policies, "POLICY", "");
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Task task;
  const kvbench::TaskSettings settings_of =
      [&task](const std::string& name) -> const kvbench::SettingSet& {
    if (name != "t") throw kvbench::ConfigError("no such task");
    return task.settings;
  };
  try {
    const auto document = kvbench::parse_json(text, "f", {.errors = kvbench::JsonErrors::config});
    const auto sweep = kvbench::expand_sweep(document, "f", {"/b", "/h", "/c"}, settings_of);
    require(!sweep.cells.empty());
    require(task.tokens >= 0 && task.tokens <= 100 && task.share >= 0 && task.share <= 1);
    for (const auto& cell : sweep.cells) require(cell.task == "t" && !cell.policy.empty());
    const auto again = kvbench::expand_sweep(document, "f", {"/b", "/h", "/c"}, settings_of);
    require(again.cells.size() == sweep.cells.size());
  } catch (const kvbench::ConfigError&) {
    // The one way to refuse.
  }
  return 0;
}
