// Definitions of op_shares.hpp.
#include "task/op_shares.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "report/console_reporter.hpp"
#include "report/json_reporter.hpp"

namespace kvbench {
namespace {

using Json = nlohmann::ordered_json;

bool is_profile(const std::string& key) {
  return key.ends_with("profile");
}

}  // namespace

void add_profile(const std::string& key, std::span<const OpProfile> profile, RunRecord& record) {
  double total = 0.0;
  for (const OpProfile& entry : profile) total += entry.seconds;
  Json rows = Json::array();
  for (const OpProfile& entry : profile) {
    if (entry.calls == 0) continue;
    rows.push_back({{"op", entry.name},
                    {"calls", entry.calls},
                    {"seconds", entry.seconds},
                    {"share", entry.seconds / total},
                    {"gflop_per_s", entry.flops / entry.seconds / 1e9},
                    {"gb_per_s", entry.bytes / entry.seconds / 1e9}});
  }
  Json details = Json::parse(record.details_json);
  details[key] = std::move(rows);
  record.details_json = dump_json(details);
}

bool has_profile(const RunRecord& record) {
  const Json details = Json::parse(record.details_json);
  const auto items = details.items();
  return std::any_of(items.begin(), items.end(),
                     [](const auto& item) { return is_profile(item.key()); });
}

void write_profiles(std::ostream& out, const RunRecord& record) {
  static const std::array kColumns{
      ReportColumn{"operation", "op", CellFormat::text},
      ReportColumn{"share", "share", CellFormat::ratio},
      ReportColumn{"seconds", "seconds", CellFormat::real},
      ReportColumn{"calls", "calls", CellFormat::count},
      ReportColumn{"GFLOP/s", "gflop_per_s", CellFormat::rate},
      ReportColumn{"GB/s", "gb_per_s", CellFormat::rate},
  };
  const Json details = Json::parse(record.details_json);
  for (const auto& [key, value] : details.items()) {
    if (!is_profile(key)) continue;
    std::vector<Json> rows(value.begin(), value.end());
    std::ranges::stable_sort(rows, std::greater{},
                             [](const Json& row) { return row.at("seconds").get<double>(); });
    out << '\n' << record.policy << ", " << key << '\n';
    write_table(out, kColumns, rows);
  }
}

}  // namespace kvbench
