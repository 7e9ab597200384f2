// Definitions of report/compare_text.hpp.
#include "report/compare_text.hpp"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "core/printable.hpp"
#include "report/console_reporter.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

std::string number(std::optional<double> value, bool bytes) {
  if (!value) return "-";
  if (bytes) return human_bytes(*value);
  if (*value == std::floor(*value) && std::abs(*value) < 1e15) return fmt::format("{:.0f}", *value);
  return fmt::format("{:.5g}", *value);
}

std::optional<double> difference(const MetricComparison& metric) {
  if (!metric.old_value || !metric.new_value) return std::nullopt;
  return *metric.new_value - *metric.old_value;
}

// Signed, with the error bar: "+0.0213 ± 0.0042"; "paired" error bars are marked by a p.
std::string difference_cell(const MetricComparison& metric, bool bytes) {
  const auto value = difference(metric);
  if (!value) return "-";
  if (*value == 0) return "0";
  const std::string size = number(std::abs(*value), bytes);
  std::string text = (*value > 0 ? "+" : "-") + size;
  if (metric.error) text += fmt::format(" ± {:.2g}{}", *metric.error, metric.paired ? " p" : "");
  return text;
}

std::string percent_cell(const MetricComparison& metric) {
  const auto value = difference(metric);
  if (!value || !metric.old_value || *metric.old_value == 0) return "-";
  return fmt::format("{:+.2f} %", 100 * *value / std::abs(*metric.old_value));
}

std::string allowed_cell(const Tolerance& tolerance, bool bytes) {
  const char* sign = tolerance.worse == Worse::both     ? "±"
                     : tolerance.worse == Worse::higher ? "+"
                                                        : "-";
  std::string text;
  if (tolerance.relative > 0) text = fmt::format("{}{:.4g} %", sign, 100 * tolerance.relative);
  if (tolerance.absolute > 0 || tolerance.relative == 0) {
    if (!text.empty()) text += " or ";
    text += sign + number(tolerance.absolute, bytes);
  }
  if (tolerance.sigmas > 0) text += fmt::format(", {:.3g} s.e.", tolerance.sigmas);
  return text;
}

std::string verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::worse:
      return "WORSE";
    case Verdict::failed:
      return "FAILED";
    case Verdict::missing:
      return "MISSING";
    case Verdict::both_failed:
      return "failed in both";
    case Verdict::only_new:
      return "new";
    default:
      return verdict_name(verdict);
  }
}

// One line per metric; a run without any has one line of its own.
std::vector<Json> table_rows(const Comparison& comparison) {
  std::vector<Json> rows;
  for (const RunComparison& run : comparison.runs) {
    if (run.metrics.empty()) {
      rows.push_back({{"policy", run.label}, {"verdict", verdict_text(run.verdict)}});
    }
    for (const MetricComparison& metric : run.metrics) {
      const bool bytes = metric.tolerance.metric.find("bytes") != std::string::npos &&
                         metric.tolerance.metric != "bits_per_byte";
      rows.push_back({{"policy", run.label},
                      {"metric", metric.tolerance.metric},
                      {"a", number(metric.old_value, bytes)},
                      {"b", number(metric.new_value, bytes)},
                      {"difference", difference_cell(metric, bytes)},
                      {"percent", percent_cell(metric)},
                      {"allowed", allowed_cell(metric.tolerance, bytes)},
                      {"verdict", verdict_text(metric.verdict)}});
    }
  }
  return rows;
}

struct Column {
  const char* title;
  const char* key;
};
constexpr Column kColumns[] = {{"metric", "metric"},
                               {"A", "a"},
                               {"B", "b"},
                               {"B - A ± s.e.", "difference"},
                               {"relative", "percent"},
                               {"allowed", "allowed"},
                               {"verdict", "verdict"}};

std::string counts_line(const Comparison& comparison) {
  std::string text = fmt::format("{} runs", comparison.runs.size());
  const char* separator = ": ";
  for (const Verdict verdict :
       {Verdict::worse, Verdict::failed, Verdict::missing, Verdict::improved, Verdict::within,
        Verdict::equal, Verdict::both_failed, Verdict::only_new}) {
    const int count = comparison.count(verdict);
    if (count == 0) continue;
    text += fmt::format("{}{} {}", separator, count, verdict_text(verdict));
    separator = ", ";
  }
  return text;
}

bool any_paired(const Comparison& comparison) {
  for (const RunComparison& run : comparison.runs) {
    for (const MetricComparison& metric : run.metrics) {
      if (metric.paired) return true;
    }
  }
  return false;
}

std::string notes(const Comparison& comparison, const char* begin) {
  std::string text;
  if (any_paired(comparison)) {
    text += fmt::format("{}p: paired error bar, from the same documents or samples on both sides\n",
                        begin);
  }
  for (const RunComparison& run : comparison.runs) {
    if (!run.note.empty()) {
      text += fmt::format("{}{}: {}\n", begin, printable(run.label), printable(run.note, 400));
    }
  }
  for (const std::string& warning : comparison.warnings) {
    text += fmt::format("{}warning: {}\n", begin, printable(warning, 400));
  }
  return text;
}

Json number_or_null(std::optional<double> value) {
  return value && std::isfinite(*value) ? Json(*value) : Json();
}

}  // namespace

std::string markdown_cell(const std::string& text) {
  std::string cell;
  for (const char c : printable(text, 400)) {
    if (c == '<') {
      cell += "&lt;";
    } else if (c == '>') {
      cell += "&gt;";
    } else if (c == '&') {
      cell += "&amp;";
    } else {
      if (std::string("\\`*_[]|~#@").find(c) != std::string::npos) cell += '\\';
      cell += c;
    }
  }
  return cell;
}

std::string comparison_table(const Comparison& comparison) {
  std::vector<ReportColumn> columns{{"policy", "", CellFormat::policy}};
  for (const Column& column : kColumns)
    columns.push_back({column.title, column.key, CellFormat::text});
  std::ostringstream text;
  write_table(text, columns, table_rows(comparison));
  text << '\n' << notes(comparison, "") << counts_line(comparison) << '\n';
  return text.str();
}

std::string comparison_markdown(const Comparison& comparison) {
  std::string text = "| policy |";
  std::string rule = "\n|---|";
  for (const Column& column : kColumns) {
    text += fmt::format(" {} |", column.title);
    rule += "---|";
  }
  text += rule + "\n";
  for (const Json& row : table_rows(comparison)) {
    text += fmt::format("| {} |", markdown_cell(row["policy"].get<std::string>()));
    for (const Column& column : kColumns) {
      const std::string cell = row.value(column.key, "-");
      const bool loud = std::string(column.key) == "verdict" && cell.size() > 1 && cell[1] < 'a';
      text += fmt::format(" {}{}{} |", loud ? "**" : "", markdown_cell(cell), loud ? "**" : "");
    }
    text += '\n';
  }
  return fmt::format("**{}**: {}\n\n{}\n{}", comparison.regression ? "Regression" : "No regression",
                     counts_line(comparison), text, notes(comparison, "- "));
}

Json comparison_to_json(const Comparison& comparison) {
  Json runs = Json::array();
  for (const RunComparison& run : comparison.runs) {
    Json metrics = Json::array();
    for (const MetricComparison& metric : run.metrics) {
      Json allowed;
      if (metric.old_value) allowed = metric.tolerance.allowed(*metric.old_value);
      metrics.push_back({{"metric", metric.tolerance.metric},
                         {"a", number_or_null(metric.old_value)},
                         {"b", number_or_null(metric.new_value)},
                         {"difference", number_or_null(difference(metric))},
                         {"stderr", number_or_null(metric.error)},
                         {"paired", metric.paired},
                         {"allowed", allowed},
                         {"worse", worse_name(metric.tolerance.worse)},
                         {"verdict", verdict_name(metric.verdict)}});
    }
    runs.push_back({{"run", run.label},
                    {"config_hash", run.config_hash},
                    {"verdict", verdict_name(run.verdict)},
                    {"note", run.note.empty() ? Json() : Json(run.note)},
                    {"metrics", metrics}});
  }
  return {{"regression", comparison.regression}, {"runs", runs}, {"warnings", comparison.warnings}};
}

}  // namespace kvbench
