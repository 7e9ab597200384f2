// Definitions of report/markdown_report.hpp.
#include "report/markdown_report.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "report/compare_text.hpp"

namespace kvbench {
namespace {

std::string settings_line(const ReportGroup& group) {
  std::string line;
  for (const auto& [name, value] : group.settings) {
    line +=
        fmt::format("{}{} {}", line.empty() ? "" : ", ", markdown_cell(name), markdown_cell(value));
  }
  return line;
}

std::string group_table(const ReportGroup& group) {
  std::string head = "|";
  std::string rule = "|";
  for (const ReportColumn& column : group.columns) {
    const bool left = column.format == CellFormat::policy || column.format == CellFormat::text;
    head += fmt::format(" {} |", markdown_cell(column.title));
    rule += left ? "---|" : "---:|";
  }
  std::string table = head + '\n' + rule + '\n';
  for (const GroupedRun& run : group.runs) {
    table += '|';
    for (const ReportColumn& column : group.columns) {
      const std::string cell =
          column.format == CellFormat::policy ? run.label : format_cell(column, *run.run->row);
      table += fmt::format(" {} |", markdown_cell(cell));
    }
    table += '\n';
  }
  return table;
}

std::string notes(const ReportGroup& group) {
  std::string text;
  for (const GroupedRun& run : group.runs) {
    if (!run.run->ok) {
      text += fmt::format("- **failed**: {}: {}\n", markdown_cell(run.label),
                          markdown_cell(run.run->reason));
    }
    for (const auto& warning : run.run->row->value("warnings", std::vector<std::string>())) {
      text += fmt::format("- {}: {}\n", markdown_cell(run.label), markdown_cell(warning));
    }
  }
  return text.empty() ? text : '\n' + text;
}

}  // namespace

std::string markdown_report(const ResultSet& results, const std::string& title,
                            const ColumnsOfTask& columns) {
  std::string text = fmt::format("## {}\n", markdown_cell(title));
  for (const ReportGroup& group : group_runs(results, columns)) {
    text += fmt::format("\n### {}: {} on {}\n\n{}\n\n{}{}", markdown_cell(group.task),
                        markdown_cell(group.model), markdown_cell(group.data), settings_line(group),
                        group_table(group), notes(group));
  }
  for (const std::string& warning : results.warnings) {
    text += fmt::format("\n- {}\n", markdown_cell(warning));
  }
  return text;
}

}  // namespace kvbench
