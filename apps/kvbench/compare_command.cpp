// `kvbench compare A B`: the gate of a build. Exit code 1 when B is worse than A, so that a script
// needs no parser.
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/kvbench/commands.hpp"
#include "apps/kvbench/options.hpp"
#include "core/error.hpp"
#include "report/compare.hpp"
#include "report/compare_text.hpp"
#include "report/json_reporter.hpp"

namespace kvbench {
namespace {

constexpr int kRegressionExit = 1;

struct CompareOptions {
  SettingSet settings;
  std::vector<std::string> results;  // A, B
  std::string tolerances;
  bool speed = false;
  bool allow_missing = false;
  bool allow_unequal = false;
  bool json = false;
  bool markdown = false;
};

void run(const CompareOptions& options) {
  if (options.results.size() != 2) {
    config_error("compare needs two results, A (older) and B (newer); {} given",
                 options.results.size());
  }
  if (options.json && options.markdown) config_error("give --json or --markdown, not both");
  std::vector<Tolerance> tolerances = default_tolerances(options.speed);
  if (!options.tolerances.empty()) read_tolerances(options.tolerances, tolerances);
  if (tolerances.empty()) config_error("--tolerances: no metric is left to compare");
  const Comparison comparison =
      compare_results(read_results(options.results[0]), read_results(options.results[1]),
                      tolerances, options.allow_missing);
  if (!comparison.unequal.empty() && !options.allow_unequal) {
    config_error("{}: their numbers cannot be compared (--allow-unequal compares them)",
                 comparison.unequal.front());
  }
  if (options.json) {
    fmt::print("{}\n", dump_json(comparison_to_json(comparison), 2));
  } else {
    fmt::print("{}",
               options.markdown ? comparison_markdown(comparison) : comparison_table(comparison));
  }
  if (comparison.regression) throw Error(kRegressionExit, "B is worse than A");
}

}  // namespace

void add_compare_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "compare", "Hold results B against results A; exit code 1 when B is worse");
  const auto options = std::make_shared<CompareOptions>();
  SettingSet& settings = options->settings;
  settings.texts("results", options->results, "A B",
                 "Two folders with an index.jsonl (or such files): the older, the newer");
  settings.text("tolerances", options->tolerances,
                "JSON file: how far each metric may drift, and which direction is worse");
  settings.flag("speed", options->speed, "Compare tokens per second and process memory too");
  settings.flag("allow_missing", options->allow_missing, "What only A has is no regression");
  settings.flag("allow_unequal", options->allow_unequal,
                "Compare runs that held different numbers of entries too");
  settings.flag("json", options->json, "Print one JSON document");
  settings.flag("markdown", options->markdown, "Print Markdown for a pull request");
  add_settings(*command, settings, "results");
  command->footer(
      "Examples:\n"
      "  kvbench compare results/baselines/emma results/today\n"
      "  kvbench compare before after --speed --tolerances tolerances.json --markdown");
  command->callback([options] { run(*options); });
}

}  // namespace kvbench
