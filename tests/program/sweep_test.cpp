// `kvbench sweep` from outside: what it runs, leaves and resumes; whatever stops it, and however it
// is divided among processes, the records are those of an undisturbed run.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>
#include <random>
#include <thread>

#include "tests/program/program.hpp"
#include "tests/support/error_text.hpp"
#include "tests/support/tiny_model.hpp"

namespace kvbench {
namespace {

using nlohmann::json;
using test::contains;
using test::fault_of;
using test::lines_of;
using test::run_program;
using test::TempDir;

const std::string kIds =
    "1,5,9,2,7,3,11,4,30,17,23,8,14,6,21,10,19,12,27,13,25,16,31,3,18,22,9,29,5,20,28,15,24,7,26";

json tiny_sweep() {
  return {{"out", "out"},
          {"task", "ppl"},
          {"threads", 1},
          {"model", {test::tiny_model("llama").string(), test::tiny_model("qwen3").string()}},
          {"ids", {{kIds}, {kIds, "4,3,2,1"}}},
          {"policy",
           {"full",
            {{"name", "sink"}, {"sinks", {1, 2}}, {"recent", {4, 6}}},
            "random:capacity=8",
            "h2o:heavy=4,recent=4"}}};
}

test::ProgramResult sweep(const TempDir& folder, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"sweep", (folder.path() / "sweep.json").string(),
                                        "--quiet"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments);
}

void write_sweep(const TempDir& folder, const json& config) {
  folder.write("sweep.json", config.dump());
}

// Time, place and memory may differ from run to run, nothing else may.
json without_measurements(json row) {
  for (const char* key : {"tokens_per_s", "prefill_tokens_per_s", "started_at", "peak_rss_bytes",
                          "environment", "threads"}) {
    row.erase(key);
  }
  return row;
}

// hash -> row, of the index; every whole record must be there too.
std::map<std::string, json> rows_of(const std::filesystem::path& out) {
  std::map<std::string, json> rows;
  for (const std::string& line : lines_of(test::read_text(out / "index.jsonl"))) {
    const json row = json::parse(line);
    const std::string hash = row.at("config_hash");
    CHECK(rows.count(hash) == 0);
    rows[hash] = without_measurements(row);
    const json record = json::parse(test::read_text(out / (hash + ".json")));
    CHECK(record.at("config_hash") == hash);
  }
  return rows;
}

std::map<std::string, json> undisturbed(const json& config) {
  const TempDir folder;
  write_sweep(folder, config);
  const auto result = sweep(folder);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return rows_of(folder.path() / "out");
}

pid_t start(const std::vector<std::string>& arguments) {
  const pid_t child = fork();
  if (child != 0) return child;
  std::vector<char*> words;
  std::string program = KVBENCH_PROGRAM;
  words.push_back(program.data());
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) words.push_back(argument.data());
  words.push_back(nullptr);
  FILE* sink = std::freopen("/dev/null", "w", stdout);
  sink = sink == nullptr ? nullptr : std::freopen("/dev/null", "w", stderr);
  execv(program.c_str(), words.data());
  _exit(127);
}

int end_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_CASE("sweep: killed twenty times at random moments and resumed, it leaves the same records") {
  const json config = tiny_sweep();
  const auto expected = undisturbed(config);
  CHECK(expected.size() == 28);
  const TempDir folder;
  write_sweep(folder, config);
  const std::vector<std::string> command = {"sweep", (folder.path() / "sweep.json").string()};
  std::minstd_rand random(20);
  int killed = 0;
  for (int round = 0; round < 20; ++round) {
    const pid_t child = start(command);
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + random() % 60));
    kill(child, SIGKILL);
    killed += end_of(child) == 128 + SIGKILL ? 1 : 0;
  }
  CHECK(killed > 0);
  const auto result = sweep(folder);
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK(rows_of(folder.path() / "out") == expected);
}

TEST_CASE("sweep: shards and worker processes leave the records of one process") {
  const json config = tiny_sweep();
  const auto expected = undisturbed(config);
  {
    const TempDir folder;
    write_sweep(folder, config);
    std::size_t rows = 0;
    for (const char* shard : {"1/3", "2/3", "3/3"}) {
      CHECK(sweep(folder, {"--shard", shard}).exit_code == 0);
      const std::size_t now = rows_of(folder.path() / "out").size();
      CHECK(now > rows);
      rows = now;
    }
    CHECK(rows_of(folder.path() / "out") == expected);
  }
  const TempDir folder;
  write_sweep(folder, config);
  std::vector<pid_t> children;
  for (const char* shard : {"1/2", "2/2"}) {  // at the same time, into the same folder
    children.push_back(start({"sweep", (folder.path() / "sweep.json").string(), "--shard", shard}));
  }
  for (const pid_t child : children) CHECK(end_of(child) == 0);
  CHECK(rows_of(folder.path() / "out") == expected);
}

TEST_CASE("sweep: worker processes divide the CPUs, and no more than there are") {
  const json config = tiny_sweep();
  const TempDir folder;
  write_sweep(folder, config);
  const auto many = sweep(folder, {"--jobs", "1024"});
  if (sysconf(_SC_NPROCESSORS_ONLN) >= 1024) return;
  // The sweep has four groups, and no more jobs than these.
  if (sysconf(_SC_NPROCESSORS_ONLN) < 4) {
    CHECK(contains(fault_of(many, 2), "every job needs one"));
  }
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) return;
  json wide = config;
  wide["threads"] = 1000;
  write_sweep(folder, wide);
  CHECK(contains(fault_of(sweep(folder, {"--jobs", "2"}), 2), "1000 threads, but each of 2 jobs"));
  write_sweep(folder, config);
  CHECK(sweep(folder, {"--jobs", "2"}).exit_code == 0);
  CHECK(rows_of(folder.path() / "out") == undisturbed(config));
}

TEST_CASE("sweep: policies in one run have the hashes and numbers of separate runs") {
  const auto together = undisturbed(tiny_sweep());
  const TempDir folder;
  for (const auto& [hash, row] : together) {
    if (row["documents"] != 1) continue;
    const auto result = run_program({"ppl", "--model", row["model"], "--ids", kIds, "--policy",
                                     row["policy"], "--threads", "1", "--quiet", "--json"});
    REQUIRE(result.exit_code == 0);
    json alone = without_measurements(json::parse(result.out).at(0));
    alone["ratio_to_full"] = row["ratio_to_full"];  // it needs the other run
    CHECK(alone == row);
  }
}

TEST_CASE("sweep: finished cells stay, --rerun runs them again") {
  const TempDir folder;
  write_sweep(folder, tiny_sweep());
  const std::string index = (folder.path() / "out/index.jsonl").string();
  REQUIRE(sweep(folder).exit_code == 0);
  const std::string first = test::read_text(index);
  const auto again = sweep(folder, {"--csv"});
  CHECK(again.exit_code == 0);
  CHECK(test::read_text(index) == first);
  CHECK(lines_of(again.out).size() == 29);  // the names, and every cell
  CHECK(sweep(folder, {"--rerun"}).exit_code == 0);
  CHECK(lines_of(test::read_text(index)).size() == 56);
}

TEST_CASE("sweep: a damaged checkpoint is an error row, the others run, and it is tried again") {
  const TempDir folder;
  const TempDir model;
  const std::string weights = test::read_text(test::tiny_model("llama") / "model.safetensors");
  std::filesystem::copy_file(test::tiny_model("llama") / "config.json",
                             model.path() / "config.json");
  model.write("model.safetensors", weights.substr(0, weights.size() - 10));
  json config = tiny_sweep();
  config["ids"] = kIds;
  config["policy"] = json::array({"full", "window8"});
  config["model"] = {test::tiny_model("llama_mha_no_kv_key").string(), model.path().string(),
                     test::tiny_model("qwen3").string()};
  write_sweep(folder, config);
  const auto result = sweep(folder);
  CHECK(contains(fault_of(result, 3), "not every cell is finished"));
  const auto count = [&](const char* status) {
    const auto rows = json::parse(sweep(folder, {"--json"}).out);
    return std::count_if(rows.begin(), rows.end(),
                         [&](const json& row) { return row["status"] == status; });
  };
  CHECK(count("ok") == 4);
  CHECK(count("error") == 2);
  CHECK(contains(result.out, model.path().string()));
  const auto stopped =
      sweep(folder, {"--rerun", "--fail-fast", "--out", (folder.path() / "other").string()});
  CHECK(stopped.exit_code == 3);
  CHECK(rows_of(folder.path() / "other").size() == 4);

  model.write("model.safetensors", weights);
  CHECK(sweep(folder).exit_code == 0);
  CHECK(count("ok") == 6);
  CHECK(count("error") == 0);
}

TEST_CASE("sweep: Ctrl-C ends with whole records, 130, and how to go on") {
  const TempDir folder;
  json config = tiny_sweep();
  config["seed"] = {{"from", 1}, {"to", 500}, {"step", 1}};
  write_sweep(folder, config);
  const std::string command =
      std::string(KVBENCH_PROGRAM) + " sweep " + (folder.path() / "sweep.json").string() +
      " > /dev/null 2> " + (folder.path() / "err").string() + " & child=$!; until [ -s " +
      (folder.path() / "err").string() + " ]; do sleep 0.01; done; kill -INT $child; wait $child";
  // In a shell without job control, background commands ignore SIGINT; hence the -m.
  const TempDir script;
  script.write("run.sh", "set -m\n" + command);
  const int status = std::system(("bash " + (script.path() / "run.sh").string()).c_str());
  CHECK(WEXITSTATUS(status) == 130);
  const std::string err = test::read_text(folder.path() / "err");
  CHECK(contains(err, "The same command goes on where this one ended"));
  const auto rows = rows_of(folder.path() / "out");
  CHECK(rows.size() > 0);
  CHECK(rows.size() < 14000);
}

TEST_CASE("sweep: relative paths and results are the same from anywhere and through a link") {
  const TempDir folder;
  json config = tiny_sweep();
  config["ids"] = kIds;
  config["model"] = "model";
  std::filesystem::copy(test::tiny_model("llama"), folder.path() / "model");
  write_sweep(folder, config);
  REQUIRE(sweep(folder).exit_code == 0);
  const auto first = rows_of(folder.path() / "out");
  const TempDir elsewhere;
  std::filesystem::create_symlink(folder.path() / "sweep.json", elsewhere.path() / "link.json");
  std::filesystem::remove_all(folder.path() / "out");
  const auto result = run_program({"sweep", (elsewhere.path() / "link.json").string(), "--quiet"});
  CHECK(result.exit_code == 0);
  CHECK(rows_of(folder.path() / "out") == first);
}

TEST_CASE("sweep: a mark before the text and Windows line ends change nothing") {
  const TempDir folder;
  json config = tiny_sweep();
  config["ids"] = kIds;
  write_sweep(folder, config);
  REQUIRE(sweep(folder).exit_code == 0);
  const auto expected = rows_of(folder.path() / "out");
  std::string text = config.dump(2);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, "\r\n");
  }
  folder.write("sweep.json", "\xEF\xBB\xBF" + text);
  CHECK(sweep(folder).exit_code == 0);
  CHECK(rows_of(folder.path() / "out") == expected);  // nothing ran again
}

TEST_CASE("sweep: faults are told before anything is loaded or written") {
  const auto fault = [](const std::string& key, const json& value) {
    json config = tiny_sweep();
    config["model"] = "/no/such/model";
    config[key] = value;
    const TempDir folder;
    write_sweep(folder, config);
    const std::string message = fault_of(sweep(folder), 2);
    CHECK(!std::filesystem::exists(folder.path() / "out"));
    return message;
  };
  CHECK(contains(fault("policy", {"full", "snapkv:kernal=5,capacity=64"}), "kernal"));
  CHECK(contains(fault("policy", {"window8", {{"name", "window"}, {"capacity", 8}}}),
                 "is the same run as cell 1"));
  CHECK(contains(fault("policy", {{{"name", "window"}, {"capacity", "8"}}}),
                 "capacity: expected a number or boolean without quotes, found \"8\""));
  CHECK(contains(fault("seed", {0, 1, 0}), "is the same run as cell"));
  CHECK(contains(fault("policy", "sink4+0"), "sink4+0"));
  CHECK(contains(fault("policy", "snapkv:capacity=64"), "acts on prompts"));
  CHECK(contains(fault("protocol", "sideways"), "is not one of"));
  CHECK(contains(fault("sede", 1), "did you mean seed?"));
  CHECK(contains(fault("task", "pple"), "did you mean ppl?"));
}

TEST_CASE("sweep: text that is nearly JSON is refused with its place") {
  for (const char* text : {"", "{\"task\":\"ppl\",}", "{\"task\":\"ppl\"}{\"a\":1}",
                           "{\"task\":NaN}", "{\"seed\":1e400}", "{\"task\":\"ppl\" // no\n}",
                           "{\"share\":0,5}", "\xEF\xBB\xBF\xEF\xBB\xBF{}", "{\"a\":\"\xFF\"}"}) {
    CAPTURE(text);
    const TempDir folder;
    folder.write("sweep.json", text);
    CHECK(contains(fault_of(sweep(folder), 2), "line 1, column "));
  }
  const TempDir folder;
  folder.write("sweep.json", std::string("{\"task\":\"ppl\"}\0", 15));
  CHECK(contains(fault_of(sweep(folder), 2), "NUL"));
  CHECK(contains(fault_of(run_program({"sweep", "/no/such.json"}), 2), "/no/such.json"));
  CHECK(contains(fault_of(run_program({"sweep"}), 2), "no configuration"));
}

TEST_CASE("sweep --plan and --dry-run keep nothing") {
  const TempDir folder;
  write_sweep(folder, tiny_sweep());
  const auto plan = sweep(folder, {"--plan"});
  CHECK(plan.exit_code == 0);
  CHECK(contains(plan.out, "28 cells in 4 runs"));
  CHECK(contains(plan.out, "one after the other, at best, by this machine's peaks"));
  const auto changed = sweep(folder, {"--plan", "--set", "policy=full", "--set", "tokens=[9,12]"});
  CHECK(contains(changed.out, "8 cells in 8 runs, 84 tokens"));
  CHECK(sweep(folder, {"--dry-run"}).exit_code == 0);
  CHECK(sweep(folder, {"--dry-run", "--set", "model=/no/such"}).exit_code != 0);
  CHECK(!std::filesystem::exists(folder.path() / "out"));
  REQUIRE(sweep(folder).exit_code == 0);
  CHECK(contains(sweep(folder, {"--plan"}).out, "tokens per second of 28 finished runs"));
}

TEST_CASE("sweep: policies that held more than others under one budget make no table unasked") {
  const TempDir folder;
  json config = tiny_sweep();
  config["model"] = test::tiny_model("llama").string();
  config["ids"] = kIds;
  config["policy"] = {"full", "window8", "h2o:heavy=4,recent=4",
                      "h2o:heavy=4,recent=4,interval=20"};
  write_sweep(folder, config);
  const auto refused = sweep(folder);
  const std::string fault = fault_of(refused, 2);
  CHECK(contains(fault, "'window8' and 'h2o:heavy=4,recent=4,interval=20'"));
  CHECK(contains(fault, "8 entries, but held 8.0 and 22.0"));
  CHECK(contains(fault, "--allow-unequal"));
  CHECK(refused.out.empty());
  CHECK(rows_of(folder.path() / "out").size() == 4);  // no work is lost
  const auto allowed = sweep(folder, {"--allow-unequal"});
  CHECK(allowed.exit_code == 0);
  CHECK(contains(allowed.out, "interval=20"));
  const std::string out = (folder.path() / "out").string();
  const std::string page = (folder.path() / "page.html").string();
  CHECK(contains(fault_of(run_program({"report", out, "--out", page}), 2), "--allow-unequal"));
  CHECK(run_program({"report", out, "--out", page, "--allow-unequal"}).exit_code == 0);
  CHECK(sweep(folder, {"--set", "policy=[\"full\",\"window8\"]", "--out",
                       (folder.path() / "equal").string()})
            .exit_code == 0);
}

TEST_CASE("sweep --schema is the committed file") {
  const auto result = run_program({"sweep", "--schema"});
  CHECK(result.exit_code == 0);
  // To renew it: kvbench sweep --schema > configs/sweep.schema.json
  const auto committed = std::filesystem::path(KVBENCH_SOURCE_DIR) / "configs/sweep.schema.json";
  CHECK(result.out == test::read_text(committed));
}

TEST_CASE("ppl --resume runs what is missing and prints all") {
  const TempDir folder;
  const auto ppl = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"ppl",     "--model", test::tiny_model("llama").string(),
                                          "--ids",   kIds,      "--threads",
                                          "1",       "--out",   folder.path().string(),
                                          "--quiet", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  };
  REQUIRE(ppl({"--policy", "window8"}).exit_code == 0);
  const auto both = ppl({"--resume", "--policy", "full", "--policy", "window8"});
  CHECK(both.exit_code == 0);
  CHECK(json::parse(both.out).size() == 2);
  CHECK(lines_of(test::read_text(folder.path() / "index.jsonl")).size() == 2);
  CHECK(contains(
      fault_of(run_program({"ppl", "--model", "x", "--ids", "1,2", "--policy", "full", "--resume"}),
               2),
      "--resume"));
}

}  // namespace
}  // namespace kvbench
