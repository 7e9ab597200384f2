// The page holds its data unharmed, whatever the records hold, and needs nothing from outside.
#include "report/html_report.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "config/config_hash.hpp"
#include "report/markdown_report.hpp"
#include "report/record_store.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/temp_dir.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::contains;

const std::string kNasty = "</script><script>alert(1)</script><!-- & \xF0\x9F\x98 {{data}} | *b*";

ResultSet nasty_results(const std::string& details = "{}") {
  const test::TempDir folder;
  RunRecord record;
  record.task = "ppl";
  record.policy = kNasty;
  record.config_json = "{}";
  record.config_hash = config_hash_of_text("{}");
  record.model_path = kNasty;
  record.data_name = kNasty;
  record.warnings = {kNasty};
  record.metrics = {sampled_metric("ppl", 4.5, "", 10, 0.25)};
  record.details_json = details;
  RecordStore(folder.path()).write(record);
  return read_results(folder.path());
}

std::span<const ReportColumn> no_columns(const std::string&) {
  return {};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

json data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const auto from = page.find(begin) + begin.size();
  return json::parse(page.substr(from, page.find("</script>", from) - from));
}

TEST_CASE("html report: text of records ends no script and is whole in the data") {
  const std::string page = html_report(nasty_results(), kNasty, no_columns);
  CHECK(count(page, "</script>") == 3);
  CHECK(!contains(page, "<script>alert"));
  CHECK(contains(page, "<title>&lt;/script&gt;"));
  const json data = data_of(page);
  const std::string text = data["groups"][0]["runs"][0]["policy"];
  CHECK(text.rfind("</script><script>alert(1)</script><!-- & \xEF\xBF\xBD {{data}}", 0) == 0);
  CHECK(data["groups"][0]["runs"][0]["warnings"][0] == text);
}

TEST_CASE("html report: nothing is loaded, and no placeholder is left") {
  const std::string page = html_report(nasty_results(), "Title", no_columns);
  CHECK(contains(page, "default-src 'none'"));
  CHECK(contains(page, "Chart.js"));
  for (const char* mark :
       {"{{style}}", "{{script}}", "{{library}}", "<link rel=\"stylesheet", "<img", "src=\"http"}) {
    CHECK(!contains(page, mark));
  }
}

TEST_CASE("html report: curves are in it; what would make it too large is left out, and said") {
  std::string samples = "[0";
  for (int i = 0; i < 100000; ++i) samples += ",12";
  const std::string page = html_report(
      nasty_results(R"({"curve":[{"nll_mean":1}],"kv_rows":[[3]],"samples":)" + samples + "]}"),
      "Title", no_columns);
  const json data = data_of(page);
  const json& details = data["groups"][0]["runs"][0]["details"];
  CHECK(details["curve"][0]["nll_mean"] == 1);
  CHECK(!details.contains("samples"));
  CHECK(!details.contains("kv_rows"));
  CHECK(contains(data["warnings"].dump(), "details.samples"));
  CHECK(page.size() < 600000);
}

TEST_CASE("markdown report: a table per group, without markup of records") {
  const std::string text = markdown_report(nasty_results(), "Title", no_columns);
  CHECK(contains(text, "## Title"));
  CHECK(contains(text, "4.5000 ± 0.2500"));
  CHECK(!contains(text, "<script"));
  CHECK(contains(text, R"(\| \*b\*)"));
}

}  // namespace
}  // namespace kvbench
