// The page's data as one JSON block, and the page around it. What the page shows is drawn by the
// scripts in page/, which put text from records in as text, never as markup.
#include "report/html_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "report/environment.hpp"
#include "report/json_reporter.hpp"
#include "report/page_assets.hpp"
#include "report/record.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

// A page stays readable, and below 6 MB, however many samples the records hold.
constexpr std::size_t kMaxMemberBytes = 256 * 1024;
constexpr std::size_t kMaxDetailBytes = 4 * 1024 * 1024;

// Curves and matrices; long lists of samples, and what no chart shows, are left out.
Json details_of(const ResultRun& run, std::size_t& bytes, std::vector<std::string>& warnings) {
  Json kept = Json::object();
  if (!run.record) return kept;
  const auto details = run.record->find("details");
  if (details == run.record->end() || !details->is_object()) return kept;
  for (const auto& [key, value] : details->items()) {
    if (key == "kv_rows") continue;
    const std::size_t size = dump_json(value).size();
    if (size > kMaxMemberBytes || bytes + size > kMaxDetailBytes) {
      warnings.push_back(
          fmt::format("{}: details.{} is left out of this page ({} bytes)", run.policy, key, size));
      continue;
    }
    bytes += size;
    kept[key] = value;
  }
  return kept;
}

Json number_or_null(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

// Distinct values, each with a number: most runs share one environment.
std::size_t place_of(Json& list, const Json& value) {
  const auto found = std::find(list.begin(), list.end(), value);
  if (found != list.end()) return static_cast<std::size_t>(found - list.begin());
  list.push_back(value);
  return list.size() - 1;
}

Json run_json(const GroupedRun& grouped, std::span<const ReportColumn> columns) {
  const ResultRun& run = *grouped.run;
  Json cells = Json::array();
  for (const ReportColumn& column : columns) {
    cells.push_back(column.format == CellFormat::policy ? grouped.label
                                                        : format_cell(column, *run.row));
  }
  Json metrics = Json::object();
  for (const std::string& name : run.metric_names()) {
    if (const auto value = run.metric(name)) {
      metrics[name] = {*value, number_or_null(run.error_bar(name))};
    }
  }
  Json json = {{"label", grouped.label},
               {"policy", run.policy},
               {"family", grouped.family},
               {"series", grouped.series},
               {"budget", number_or_null(grouped.budget)},
               {"ok", run.ok},
               {"reason", run.reason},
               {"cells", cells},
               {"metrics", metrics},
               {"warnings", run.row->value("warnings", Json::array())},
               {"config_hash", run.config_hash},
               {"started_at", run.text("started_at")},
               {"threads", run.row->value("threads", Json())},
               {"backend", run.text("backend")}};
  if (run.record) {
    json["config"] = run.record->at("config");
    json["timings_s"] = run.record->value("timings_s", Json::object());
  } else {
    json["config"] = Json::object();
    for (const auto& [key, value] : run.settings()) json["config"][key] = value;
  }
  return json;
}

Json page_data(const ResultSet& results, const std::string& title, const ColumnsOfTask& columns) {
  std::vector<std::string> warnings = results.warnings;
  std::size_t detail_bytes = 0;
  Json environments = Json::array();
  Json groups = Json::array();
  for (const ReportGroup& group : group_runs(results, columns)) {
    Json titles = Json::array();
    for (const ReportColumn& column : group.columns) {
      const bool left = column.format == CellFormat::policy || column.format == CellFormat::text;
      titles.push_back({{"title", column.title}, {"left", left}});
    }
    Json runs = Json::array();
    for (const GroupedRun& grouped : group.runs) {
      Json run = run_json(grouped, group.columns);
      run["details"] = details_of(*grouped.run, detail_bytes, warnings);
      run["environment"] =
          place_of(environments, grouped.run->row->value("environment", Json::object()));
      runs.push_back(std::move(run));
    }
    groups.push_back({{"task", group.task},
                      {"model", group.model},
                      {"data", group.data},
                      {"settings", group.settings},
                      {"columns", titles},
                      {"runs", runs}});
  }
  return {{"title", title},
          {"made_at", utc_now()},
          {"version", read_environment().kvbench_version},
          {"warnings", warnings},
          {"environments", environments},
          {"groups", groups}};
}

// JSON text in which no byte can end the script element, nor begin a comment in it.
std::string script_safe(const std::string& json) {
  std::string safe;
  for (const char c : json) {
    if (c == '<' || c == '>' || c == '&') {
      safe += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string html_text(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string html_report(const ResultSet& results, const std::string& title,
                        const ColumnsOfTask& columns) {
  const Json data = page_data(results, title, columns);
  // Through JSON, so that invalid UTF-8 in the title is replaced there too.
  const std::string clean_title = Json::parse(dump_json(data["title"])).get<std::string>();
  const std::pair<std::string_view, std::string> parts[] = {
      {"{{title}}", html_text(clean_title)},
      {"{{style}}", std::string(page_style())},
      {"{{library}}", std::string(page_chart_library())},
      {"{{script}}", std::string(page_script())},
      {"{{data}}", script_safe(dump_json(data))}};
  std::string page;
  std::string_view rest = page_template();
  // From left to right, once: what is put in is not searched for marks.
  for (std::size_t mark = rest.find("{{"); mark != rest.npos; mark = rest.find("{{")) {
    page += rest.substr(0, mark);
    rest.remove_prefix(mark);
    const auto part = std::find_if(std::begin(parts), std::end(parts), [&](const auto& candidate) {
      return rest.starts_with(candidate.first);
    });
    KVB_CHECK(part != std::end(parts), "the page's template has an unknown mark: {}",
              rest.substr(0, 20));
    page += part->second;
    rest.remove_prefix(part->first.size());
  }
  return page.append(rest);
}

}  // namespace kvbench
