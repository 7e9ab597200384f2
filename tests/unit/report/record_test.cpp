// Records as JSON, CSV and tables: nothing that a value holds may spoil the text.
#include "report/record.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "config/config_hash.hpp"
#include "core/error.hpp"
#include "report/console_reporter.hpp"
#include "report/csv_reporter.hpp"
#include "report/json_reporter.hpp"
#include "tests/support/comma_locale.hpp"

namespace kvbench {
namespace {

const ReportColumn kColumns[] = {
    {"policy", "", CellFormat::policy},
    {"ppl ± s.e.", "ppl", CellFormat::measured},
    {"bits/byte", "bits_per_byte", CellFormat::real},
    {"tokens", "tokens_scored", CellFormat::count},
    {"tok/s", "tokens_per_s", CellFormat::rate},
    {"KV kept", "kv_bytes_live", CellFormat::bytes},
    {"KV peak", "kv_bytes_peak", CellFormat::bytes},
    {"KV/full", "kv_ratio_to_full", CellFormat::ratio},
    {"ppl/full", "ratio_to_full", CellFormat::ratio},
};

std::vector<nlohmann::ordered_json> rows_of(const std::vector<RunRecord>& records) {
  std::vector<nlohmann::ordered_json> rows;
  for (const RunRecord& record : records) rows.push_back(record_to_row(record));
  return rows;
}

RunRecord sample_record() {
  RunRecord record;
  record.task = "ppl";
  record.started_at = "2024-05-01T12:00:00Z";
  record.config_json = R"({"protocol":"stream","chunk":512,"seed":3,"ids":[1,2]})";
  record.config_hash = config_hash_of_text(record.config_json);
  record.model_path = "/models/tiny";
  record.data_name = "janeausten";
  record.data_documents = 6;
  record.policy = "sink4+1020";
  record.policy_json = R"({"name":"sink","sink":4,"recent":1020})";
  record.seed = 18446744073709551615ULL;
  record.dtype = "f32";
  record.threads = 2;
  record.metrics = {sampled_metric("ppl", 18.8, "", 2047, 0.9),
                    missing_metric("bits_per_byte", "bit", "no text: token ids were given"),
                    count_metric("tokens_scored", 2047, "tokens"),
                    real_metric("tokens_per_s", 5512.34, "1/s"),
                    count_metric("kv_bytes_live", 3 * 1024 * 1024, "B"),
                    real_metric("ratio_to_full", 0.125, "")};
  record.timings = {{"load", 0.25}};
  return record;
}

TEST_CASE("record: the flat row has metrics, settings and fields under their own names") {
  const auto row = record_to_row(sample_record());
  CHECK(row["policy"] == "sink4+1020");
  CHECK(row["status"] == "ok");
  CHECK(row["reason"].is_null());
  CHECK(row["ppl"] == 18.8);
  CHECK(row["ppl_stderr"] == 0.9);
  CHECK(row["bits_per_byte"].is_null());
  CHECK(row["tokens_scored"].is_number_integer());
  CHECK(row["tokens_scored"] == 2047);
  CHECK(row["protocol"] == "stream");
  CHECK(row["chunk"] == 512);
  CHECK_FALSE(row.contains("ids"));
  CHECK(row["seed"] == 18446744073709551615ULL);
  CHECK(row["documents"] == 6);
  CHECK(row["environment"].is_object());
  CHECK(row["config_hash"].get<std::string>().size() == 64);
}

TEST_CASE("record: the whole record keeps units, samples, reasons and the policy's options") {
  const auto json = record_to_json(sample_record());
  CHECK(json["schema_version"] == kRecordSchemaVersion);
  CHECK(json["config"]["ids"].size() == 2);
  CHECK(json["policy_options"]["recent"] == 1020);
  CHECK(json["metrics"][0]["n"] == 2047);
  CHECK(json["metrics"][0]["stderr"] == 0.9);
  CHECK(json["metrics"][1]["reason"] == "no text: token ids were given");
  CHECK(json["metrics"][2]["unit"] == "tokens");
  CHECK(json["timings_s"]["load"] == 0.25);
  CHECK(json["data"]["name"] == "janeausten");
}

TEST_CASE("record: numbers that are not finite are null with a reason") {
  RunRecord record = sample_record();
  record.metrics = {sampled_metric("ppl", std::numeric_limits<double>::infinity(), "", 10,
                                   std::numeric_limits<double>::quiet_NaN()),
                    real_metric("tokens_per_s", std::numeric_limits<double>::quiet_NaN(), "1/s")};
  const auto json = record_to_json(record);
  CHECK(json["metrics"][0]["value"].is_null());
  CHECK(json["metrics"][0]["stderr"].is_null());
  CHECK(json["metrics"][0]["reason"] == "non-finite");
  const std::string text = dump_json(record_to_row(record));
  CHECK(text.find("nan") == std::string::npos);
  CHECK(text.find("inf") == std::string::npos);
  CHECK(nlohmann::json::parse(text)["ppl_stderr"].is_null());
}

TEST_CASE("record: strings that are no UTF-8 are written, with replacement characters") {
  RunRecord record = sample_record();
  record.reason = "I like \xF0\x9F\x98";
  record.warnings = {std::string("a\0b", 3), "\x80"};
  const auto row = nlohmann::json::parse(dump_json(record_to_row(record)));
  CHECK(row["reason"] == "I like \xEF\xBF\xBD");
  CHECK(row["warnings"][0] == std::string("a\0b", 3));
  CHECK(row["warnings"][1] == "\xEF\xBF\xBD");
}

TEST_CASE("record: two fields of one name are a fault of the program") {
  RunRecord record = sample_record();
  record.metrics.push_back(real_metric("documents", 1, ""));
  CHECK_THROWS_AS(record_to_row(record), InternalError);
  record = sample_record();
  record.details_json = "[1]";
  CHECK_THROWS_AS(record_to_json(record), InternalError);
}

TEST_CASE("json rows: an array with one object per record") {
  std::ostringstream out;
  const std::vector<nlohmann::ordered_json> rows = rows_of({sample_record(), sample_record()});
  write_json_rows(out, rows);
  const auto parsed = nlohmann::json::parse(out.str());
  REQUIRE(parsed.is_array());
  CHECK(parsed.size() == 2);
  CHECK(parsed[1]["ppl"] == 18.8);
  std::ostringstream none;
  write_json_rows(none, {});
  CHECK(none.str() == "[]\n");
}

TEST_CASE("csv: quoting, empty cells for null, columns of all rows") {
  RunRecord failed = sample_record();
  failed.ok = false;
  failed.reason = "bad \"shape\", layer 2";
  failed.metrics = {missing_metric("evictions", "", "failed")};
  const std::vector<nlohmann::ordered_json> rows = rows_of({sample_record(), failed});
  std::ostringstream out;
  write_csv(out, rows);
  std::istringstream lines(out.str());
  std::string header;
  std::string first;
  std::string second;
  std::getline(lines, header);
  std::getline(lines, first);
  std::getline(lines, second);
  CHECK(header.starts_with("task,policy,status,reason,ppl,ppl_stderr,bits_per_byte,"));
  CHECK(header.ends_with(",evictions"));
  CHECK(first.starts_with("ppl,sink4+1020,ok,,18.8,0.9,,2047,5512.34,"));
  CHECK(second.starts_with("ppl,sink4+1020,error,\"bad \"\"shape\"\", layer 2\",,,,"));
}

TEST_CASE("table: aligned columns with human units, then warnings and reasons") {
  RunRecord full = sample_record();
  full.policy = "full";
  full.metrics = {sampled_metric("ppl", 1234.5, "", 10, 0.123456),
                  count_metric("tokens_scored", 1234567, "tokens"),
                  count_metric("kv_bytes_live", 512, "B")};
  full.warnings = {"debug build"};
  RunRecord failed = sample_record();
  failed.policy = "h2o:heavy=8";
  failed.ok = false;
  failed.reason = "out of memory";
  failed.metrics.clear();
  const std::vector<nlohmann::ordered_json> rows = rows_of({sample_record(), full, failed});
  std::ostringstream out;
  write_table(out, kColumns, rows);
  CHECK(out.str() ==
        "policy               ppl ± s.e.  bits/byte     tokens  tok/s   KV kept  KV peak  KV/full  "
        "ppl/full\n"
        "sink4+1020     18.8000 ± 0.9000          -      2,047   5.5k  3.00 MiB        -        -  "
        "  12.5 %\n"
        "full         1234.5000 ± 0.1235          -  1,234,567      -     512 B        -        -  "
        "       -\n"
        "h2o:heavy=8                   -          -          -      -         -        -        -  "
        "       -\n"
        "warning: full: debug build\n"
        "error: h2o:heavy=8: out of memory\n");
}

TEST_CASE("table: what all records warn of is said once") {
  RunRecord first = sample_record();
  first.warnings = {"shared", "own"};
  RunRecord second = sample_record();
  second.policy = "full";
  second.warnings = {"shared"};
  const std::vector<nlohmann::ordered_json> rows = rows_of({first, second});
  std::ostringstream out;
  write_table(out, kColumns, rows);
  CHECK(out.str().ends_with("warning: shared\nwarning: sink4+1020: own\n"));
}

TEST_CASE("row: the error bar of a mean goes by the name of what is averaged") {
  RunRecord record = sample_record();
  record.metrics = {sampled_metric("nll_mean", 3.2, "nat", 10, 0.1)};
  CHECK(record_to_row(record)["nll_stderr"] == 0.1);
}

TEST_CASE("table: human units at their borders") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1024) == "1.00 KiB");
  CHECK(human_bytes(1024.0 * 1024 - 1) == "1.00 MiB");
  CHECK(human_bytes(1.5 * 1024 * 1024 * 1024) == "1.50 GiB");
  CHECK(human_count(0) == "0");
  CHECK(human_count(999) == "999");
  CHECK(human_count(-1234567) == "-1,234,567");
  CHECK(human_count(-123) == "-123");
  CHECK(human_rate(999.96) == "1.0k");
  CHECK(human_rate(3.14) == "3.1");
  CHECK(human_rate(2.5e6) == "2.5M");
}

TEST_CASE("reports are the same bytes in a locale with a decimal comma") {
  const std::vector<nlohmann::ordered_json> rows = rows_of({sample_record()});
  const auto all = [&] {
    std::ostringstream out;
    write_json_rows(out, rows);
    write_csv(out, rows);
    write_table(out, kColumns, rows);
    return out.str();
  };
  const std::string expected = all();
  const test::CommaLocale comma;
  CHECK(all() == expected);
}

TEST_CASE("utc_now is ISO 8601") {
  const std::string now = utc_now();
  REQUIRE(now.size() == 20);
  CHECK(now[4] == '-');
  CHECK(now[10] == 'T');
  CHECK(now[19] == 'Z');
}

}  // namespace
}  // namespace kvbench
