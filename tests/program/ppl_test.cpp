// `kvbench ppl` and `kvbench trace` from outside: what they print, what they keep, and that a
// wrong number never looks like a right one.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "tests/program/program.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::contains;
using test::fault_of;
using test::ProgramResult;
using test::run_program;

const std::string kForty =
    "1,5,9,2,7,3,11,4,30,17,23,8,14,6,21,10,19,12,27,13,25,16,31,3,18,22,9,29,5,20,28,15,24,7,26,"
    "0,11,17,6,2";

ProgramResult ppl(const std::vector<std::string>& more, const std::string& environment = "",
                  const std::string& model = test::tiny_model("llama").string()) {
  std::vector<std::string> arguments = {"ppl", "--model", model, "--threads", "1", "--quiet"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments, environment);
}

json rows(const ProgramResult& result) {
  CAPTURE(result.err);
  REQUIRE(!result.out.empty());
  return json::parse(result.out);
}

// What changes from one run to the next.
json without_measurements(json row) {
  for (const char* key : {"tokens_per_s", "started_at", "peak_rss_bytes", "timings"}) {
    row.erase(key);
  }
  return row;
}

TEST_CASE("ppl --json: a row for each policy, in the order asked for, full run first") {
  const auto result = ppl({"--ids", kForty, "--policy", "window8:evict=before", "--policy",
                           "recompute8", "--policy", "full", "--json"});
  REQUIRE(result.exit_code == 0);
  const json found = rows(result);
  REQUIRE(found.size() == 3);
  const double expected[] = {84.555414, 88.755331, 96.732252};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(std::abs(found[i]["ppl"].get<double>() - expected[i]) < 1e-3);
    CHECK(found[i]["status"] == "ok");
    CHECK(found[i]["tokens_scored"] == 39);
    CHECK(std::abs(found[i]["ratio_to_full"].get<double>() - expected[i] / expected[2]) < 1e-6);
  }
  CHECK(found[0]["policy"] == "window8:evict=before");
  CHECK(found[0]["evictions"].get<int>() > 0);
  CHECK(found[2]["evictions"] == 0);
}

TEST_CASE("ppl: a table with one line for each policy") {
  const auto result = ppl({"--ids", kForty, "--policy", "full", "--policy", "sink2+6"});
  CHECK(result.exit_code == 0);
  const auto lines = test::lines_of(result.out);
  REQUIRE(lines.size() >= 3);
  CHECK(contains(lines[0], "policy"));
  CHECK(contains(lines[0], "ppl"));
  CHECK(contains(lines[1], "96.73"));
  CHECK(lines[2].rfind("sink2+6", 0) == 0);
}

TEST_CASE("--profile: shares of the operations, as a table and in the record") {
  const auto table = ppl({"--ids", kForty, "--policy", "full", "--profile"});
  CHECK(table.exit_code == 0);
  CHECK(contains(table.out, "full, profile"));
  CHECK(contains(table.out, "attention"));
  const test::TempDir folder;
  const auto kept = ppl({"--ids", kForty, "--policy", "full", "--policy", "sink2+6", "--profile",
                         "--json", "--out", folder.path().string()});
  for (const json& row : rows(kept)) {
    const auto file = folder.path() / (row.at("config_hash").get<std::string>() + ".json");
    const json profile = json::parse(test::read_text(file)).at("details").at("profile");
    double shares = 0.0;
    for (const json& entry : profile) shares += entry.at("share").get<double>();
    CHECK(std::abs(shares - 1.0) < 1e-9);
    CHECK(profile.size() > 5);
  }
}

TEST_CASE("ppl --csv: a header and a line for each policy, equally many fields") {
  const auto result = ppl({"--ids", kForty, "--policy", "full", "--policy", "window8", "--csv"});
  CHECK(result.exit_code == 0);
  const auto lines = test::lines_of(result.out);
  REQUIRE(lines.size() == 3);
  const auto fields = [](const std::string& line) {
    bool quoted = false;
    int n = 1;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted) ++n;
    }
    return n;
  };
  CHECK(fields(lines[1]) == fields(lines[0]));
  CHECK(fields(lines[2]) == fields(lines[0]));
}

TEST_CASE("ppl --out: every run leaves a record; one seed gives one result") {
  const test::TempDir first;
  const test::TempDir second;
  std::vector<json> runs;
  for (const auto* folder : {&first, &second}) {
    const auto result = ppl({"--ids", kForty, "--policy", "random:capacity=6", "--policy", "full",
                             "--seed", "5", "--json", "--out", folder->path().string()});
    REQUIRE(result.exit_code == 0);
    runs.push_back(rows(result));
    const auto index = test::lines_of(test::read_text(folder->path() / "index.jsonl"));
    CHECK(index.size() == 2);
    for (const std::string& line : index) CHECK(json::parse(line)["status"] == "ok");
  }
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(without_measurements(runs[0][i]) == without_measurements(runs[1][i]));
  }
  const auto other =
      rows(ppl({"--ids", kForty, "--policy", "random:capacity=6", "--seed", "6", "--json"}));
  CHECK(other[0]["ppl"] != runs[0][0]["ppl"]);
  CHECK(other[0]["config_hash"] != runs[0][0]["config_hash"]);
}

TEST_CASE("a decimal comma in the environment changes nothing") {
  const std::vector<std::string> arguments = {"--ids", kForty, "--policy", "sink2+6", "--json"};
  const json plain = rows(ppl(arguments, "LC_ALL=C"))[0];
  for (const std::string locale : {"LC_ALL=de_DE.UTF-8", "LC_ALL=fr_FR.UTF-8", "LANG=de_DE"}) {
    CAPTURE(locale);
    CHECK(without_measurements(rows(ppl(arguments, locale))[0]) == without_measurements(plain));
  }
}

TEST_CASE("--strict: a policy that evicted nothing is an error, else a warning") {
  const auto loose = ppl({"--ids", kForty, "--policy", "window64", "--json"});
  CHECK(loose.exit_code == 0);
  CHECK(contains(rows(loose)[0]["warnings"].dump(), "evicted nothing"));
  const auto strict = ppl({"--ids", kForty, "--policy", "window64", "--json", "--strict"});
  CHECK(contains(fault_of(strict, 2), "window64"));
  CHECK(rows(strict)[0]["status"] == "error");
  CHECK(rows(strict)[0]["ppl"].is_null());
  CHECK(ppl({"--ids", kForty, "--policy", "window8", "--policy", "full", "--strict"}).exit_code ==
        0);
}

TEST_CASE("documents too short to score are skipped; with no other there is nothing to score") {
  const auto result = ppl({"--ids", "1", "--ids", kForty, "--policy", "full", "--json"});
  REQUIRE(result.exit_code == 0);
  CHECK(rows(result)[0]["tokens_scored"] == 39);
  CHECK(rows(result)[0]["documents_skipped"] == 1);
  const auto nothing = ppl({"--ids", "1", "--policy", "full", "--json"});
  CHECK(contains(fault_of(nothing, 3), "nothing to score"));
  CHECK(rows(nothing)[0]["ppl"].is_null());
}

// One weight of that value in the last layer: an f32 product overflows or is not a number.
ProgramResult with_weight(std::uint32_t bits, const std::vector<std::string>& arguments,
                          const char* tensor_name) {
  test::TempDir directory;
  test::write_config(directory, test::tiny_config("llama"));
  auto tensors = test::tiny_tensors("llama");
  for (test::OwnedTensor& tensor : tensors) {
    if (tensor.name == tensor_name) std::memcpy(tensor.bytes.data() + 40, &bits, sizeof(bits));
  }
  test::write_tensors(directory, tensors);
  return ppl(arguments, "", directory.path().string());
}

TEST_CASE("numbers that are not finite: an error row with null, exit code 3") {
  for (const char* tensor :
       {"lm_head.weight", "model.layers.1.mlp.down_proj.weight",
        "model.layers.0.self_attn.k_proj.weight", "model.layers.0.self_attn.v_proj.weight"}) {
    for (const std::uint32_t bits : {0x7FC00000u, 0x7F800000u, 0xFF800000u}) {
      CAPTURE(std::string(tensor));
      CAPTURE(bits);
      const auto result = with_weight(
          bits, {"--ids", kForty, "--policy", "full", "--policy", "window8", "--json"}, tensor);
      CHECK(contains(fault_of(result, 3), "finite"));
      const json found = rows(result);
      for (const json& row : found) {
        CHECK(row["status"] == "error");
        CHECK(row["ppl"].is_null());
        CHECK(contains(row["reason"].get<std::string>(), "finite"));
      }
      CHECK(!contains(result.out, "NaN"));
      CHECK(!contains(result.out, "nan,"));
    }
  }
}

TEST_CASE("a weight of 6e38 cannot be read as a number: f32 ends at 3.4e38; 3e38 overflows") {
  const auto result = with_weight(0x7F61B1E6u, {"--ids", kForty, "--policy", "full", "--json"},
                                  "model.layers.1.mlp.down_proj.weight");
  // Normalised by the final norm, a huge residual may still give finite logits.
  const json row = rows(result)[0];
  if (result.exit_code == 0) {
    CHECK(std::isfinite(row["ppl"].get<double>()));
  } else {
    CHECK(result.exit_code == 3);
    CHECK(row["ppl"].is_null());
  }
}

TEST_CASE("trace --json: losses, logits, what stays, what was generated") {
  const auto result = run_program({"trace", "--model", test::tiny_model("llama").string(), "--ids",
                                   kForty, "--policy", "sink2+6", "--greedy", "3", "--json"});
  REQUIRE(result.exit_code == 0);
  const json trace = json::parse(result.out);
  CHECK(trace["nll"].size() == 39);
  CHECK(trace["last_logits"].size() == 32);
  CHECK(trace["kept"].size() == 2);
  CHECK(trace["kept"][0][0].size() == 8);
  CHECK(trace["kept"][0][0][0] == 0);
  CHECK(trace["evicted"].get<int>() > 0);
  CHECK((trace["finish"] == "length" || trace["finish"] == "stop"));
  const auto text = run_program({"trace", "--model", test::tiny_model("llama").string(), "--ids",
                                 "1,5,9", "--policy", "window2"});
  CHECK(text.exit_code == 0);
  CHECK(contains(text.out, "4.55529"));
  CHECK(contains(text.out, "keeps 2: 1-2"));
}

// Row 7 of the vocabulary, in a file of its own, stands where id 7 would.
TEST_CASE("learned sinks from a file are fed before the ids; a wrong shape names the tensor") {
  const std::string model = test::tiny_model("llama").string();
  const Checkpoint checkpoint = Checkpoint::open(model);
  std::vector<float> row(16);
  to_floats(checkpoint.require("model.embed_tokens.weight"), 7 * 16, 16, row.data());
  const test::TempDir directory;
  const auto file =
      directory
          .write("sinks.safetensors", test::SafetensorsBuilder()
                                          .add_f32("sink_tokens", {1, 16}, row)
                                          .add_f32("half", {1, 8}, {1, 2, 3, 4, 5, 6, 7, 8})
                                          .bytes())
          .string();
  const auto trace = [&](const std::string& ids, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"trace",   "--model", model, "--policy",
                                          "sink1+4", "--ids",   ids,   "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  };
  const auto found =
      rows(trace("1,5,9,2,11,3", {"--sink-file", file, "--sink-tensor", "sink_tokens"}));
  const auto expected = rows(trace("7,1,5,9,2,11,3", {}));
  CHECK(found["last_logits"] == expected["last_logits"]);
  CHECK(found["kept"] == expected["kept"]);
  CHECK(found["nll"].size() == 5);
  const auto refused = trace("1,5", {"--sink-file", file, "--sink-tensor", "half"});
  CHECK(refused.exit_code == 3);
  CHECK(contains(refused.err, "half"));
  CHECK(contains(refused.err, "[1, 8]"));
}

TEST_CASE("generation ends at any of the model's stop tokens") {
  const std::string model = test::tiny_model("llama_eos_list").string();
  const auto go_on = json::parse(run_program({"trace", "--model", model, "--ids", "1,5,9",
                                              "--greedy", "60", "--ignore-stop-ids", "--json"})
                                     .out);
  const auto stop = json::parse(
      run_program({"trace", "--model", model, "--ids", "1,5,9", "--greedy", "60", "--json"}).out);
  json expected = json::array();
  bool stopped = false;
  for (const json& id : go_on["generated"]) {
    stopped = id == 2 || id == 7 || id == 9;
    if (stopped) break;
    expected.push_back(id);
  }
  CHECK(go_on["generated"].size() == 60);
  CHECK(stop["generated"] == expected);
  CHECK(stop["finish"] == (stopped ? "stop" : "length"));
}

}  // namespace
}  // namespace kvbench
