// `kvbench report RESULTS...`: an HTML page, or Markdown for a pull request.
#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "apps/kvbench/commands.hpp"
#include "apps/kvbench/options.hpp"
#include "core/error.hpp"
#include "report/compare.hpp"
#include "report/compare_text.hpp"
#include "report/durable_file.hpp"
#include "report/equal_budgets.hpp"
#include "report/html_report.hpp"
#include "report/markdown_report.hpp"
#include "task/task.hpp"

namespace kvbench {
namespace {

struct ReportOptions {
  SettingSet settings;
  std::vector<std::string> results;
  std::string format = "html";
  std::string out;
  std::string title = "KV-cache eviction: results";
  bool allow_unequal = false;
};

// None for a task that this build does not know, as in results of another version.
std::span<const ReportColumn> columns_of(const std::string& task) {
  for (const TaskInfo& info : tasks()) {
    if (info.name == task) return info.columns;
  }
  return {};
}

// Of two results, the second is shown, and what changed since the first.
std::string markdown(const ReportOptions& options,
                     const std::vector<std::filesystem::path>& paths) {
  if (paths.size() != 2) {
    return markdown_report(read_results(paths), options.title, columns_of);
  }
  const ResultSet older = read_results(paths[0]);
  const ResultSet newer = read_results(paths[1]);
  const Comparison comparison = compare_results(older, newer, default_tolerances(false), false);
  return markdown_report(newer, options.title, columns_of) + "\n### Since " +
         markdown_cell(paths[0].string()) + "\n\n" + comparison_markdown(comparison);
}

void run(const ReportOptions& options) {
  if (options.results.empty()) config_error("report needs a folder of results, or several");
  if (options.format == "html" && options.out.empty()) {
    config_error("--out: missing: the file that the page is written to");
  }
  const std::vector<std::filesystem::path> paths(options.results.begin(), options.results.end());
  if (!options.allow_unequal) require_equal_budgets(read_results(paths));
  const std::string text = options.format == "md"
                               ? markdown(options, paths)
                               : html_report(read_results(paths), options.title, columns_of);
  if (options.out.empty()) {
    fmt::print("{}", text);
    return;
  }
  write_file_atomically(options.out, text);
}

}  // namespace

void add_report_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("report", "Results as one HTML page with charts, or as Markdown");
  const auto options = std::make_shared<ReportOptions>();
  SettingSet& settings = options->settings;
  settings.texts("results", options->results, "RESULTS",
                 "Folders with an index.jsonl, or such files");
  settings.text("out", options->out,
                "The file to write (html: required; md: else standard output)");
  settings.choice("format", options->format, {"html", "md"},
                  "html, or md: Markdown tables; of two results also what changed from the first "
                  "to the second");
  settings.text("title", options->title, "Title of the page");
  settings.flag("allow_unequal", options->allow_unequal,
                "Show policies that held different numbers of entries under one budget too");
  add_settings(*command, settings, "results");
  command->footer(
      "Examples:\n"
      "  kvbench report results/pg19 results/needle --out report.html\n"
      "  kvbench report before after --format md");
  command->callback([options] { run(*options); });
}

}  // namespace kvbench
