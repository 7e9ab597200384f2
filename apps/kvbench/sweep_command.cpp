// `kvbench sweep`: all cells of a configuration file, resumed where an earlier run ended.
#include <fmt/core.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/kvbench/commands.hpp"
#include "apps/kvbench/interrupt.hpp"
#include "apps/kvbench/options.hpp"
#include "apps/kvbench/sweep_report.hpp"
#include "config/parse_number.hpp"
#include "core/error.hpp"
#include "report/csv_reporter.hpp"
#include "report/environment.hpp"
#include "report/equal_budgets.hpp"
#include "report/json_reporter.hpp"
#include "report/record_store.hpp"
#include "task/sweep.hpp"
#include "task/sweep_plan.hpp"
#include "task/sweep_schema.hpp"
#include "task/sweep_workers.hpp"

namespace kvbench {
namespace {

constexpr std::int64_t kMaxJobs = 1024;
constexpr std::int64_t kMaxShards = 1'000'000;

struct SweepCommand {
  SettingSet settings;
  std::string config;
  std::vector<std::string> overrides;
  std::string out;
  std::string shard;
  std::int64_t jobs = 1;
  bool plan = false;
  bool dry_run = false;
  bool schema = false;
  bool rerun = false;
  bool fail_fast = false;
  bool csv = false;
  bool json = false;
  bool quiet = false;
  bool allow_unequal = false;

  void declare();
};

void SweepCommand::declare() {
  settings.text("config", config, "Configuration file (JSON)");
  settings.texts("set", overrides, "KEY=VALUE",
                 "Replace a key of the configuration, as in tokens=4096 or task.0.seed=[1,2]");
  settings.text("out", out, "Folder for the records (default: the configuration's own)");
  settings.flag("plan", plan, "Print the cells with tokens, memory and time, and run nothing");
  settings.flag("dry_run", dry_run, "Run every cell on a few tokens, and keep nothing");
  settings.flag("schema", schema, "Print the JSON Schema of configurations");
  settings.flag("rerun", rerun, "Run finished cells again");
  settings.flag("fail_fast", fail_fast, "Stop at the first cell that fails");
  settings.text("shard", shard, "I/N: run the I-th of N parts, as the processes of a job array do");
  settings.integer("jobs", jobs, 1, kMaxJobs, "Worker processes; they divide the CPUs");
  settings.flag("allow_unequal", allow_unequal,
                "Tables of policies that held different numbers of entries under one budget too");
  settings.flag("json", json, "Print the records of the folder as a JSON array");
  settings.flag("csv", csv, "Print the records of the folder as CSV");
  settings.flag("quiet", quiet, "No progress lines");
}

// "2/4", counted from 1.
std::pair<std::size_t, std::size_t> parse_shard(const std::string& text) {
  if (text.empty()) return {0, 1};
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) config_error("--shard {}: expected I/N, as in 2/4", text);
  const std::string_view view(text);
  const auto parts = parse_int(view.substr(slash + 1), 1, kMaxShards, "--shard " + text);
  const auto index = parse_int(view.substr(0, slash), 1, parts, "--shard " + text);
  return {static_cast<std::size_t>(index - 1), static_cast<std::size_t>(parts)};
}

// Threads that a cell asks for must be there for it alone.
void check_threads(const std::vector<SweepGroup>& groups, std::size_t jobs) {
  const int share = cpus_of_worker(jobs - 1, jobs);
  for (const SweepGroup& group : groups) {
    const SettingTexts* threads = group.cells.front().find("threads");
    if (threads == nullptr || jobs == 1) continue;
    if (parse_int(threads->front(), 0, kMaxShards, "threads") > share) {
      config_error("{}: {} threads, but each of {} jobs has {} of {} CPUs",
                   cell_label(group.cells.front()), threads->front(), jobs, share, usable_cpus());
    }
  }
}

void say(std::string_view line) {
  fmt::print(stderr, "{}\n", line);
}

int run_here(const std::vector<SweepGroup>& groups, const std::filesystem::path& out,
             const SweepRun& options) {
  RecordStore store(out);
  return run_groups(groups, store, options).exit_code;
}

int run_cells(const SweepCommand& command, const SweepPlan& plan,
              const std::filesystem::path& out) {
  SweepRun options;
  options.rerun = command.rerun;
  options.fail_fast = command.fail_fast;
  options.quiet = command.quiet || command.jobs > 1;
  options.guard = guard_from_interrupts;
  if (!command.quiet) options.say = say;
  const auto [part, parts] = parse_shard(command.shard);
  const std::vector<SweepGroup> groups = part_of(plan.groups, part, parts);
  const auto jobs =
      std::min(static_cast<std::size_t>(command.jobs), std::max<std::size_t>(groups.size(), 1));
  check_threads(groups, jobs);
  catch_interrupts(
      fmt::format("\nkvbench: interrupted; finished cells are in {}. The same command goes on "
                  "where this one ended.\n",
                  out.string()));
  if (jobs == 1) return run_here(groups, out, options);
  return run_workers(jobs, [&](std::size_t worker) {
    catch_interrupts("");
    return run_here(part_of(groups, worker, jobs), out, options);
  });
}

void print_results(const SweepCommand& command, const std::filesystem::path& out,
                   const SweepPlan& plan) {
  const std::vector<nlohmann::ordered_json> rows = rows_in_order(RecordStore(out).read(), plan);
  if (command.json) {
    write_json_rows(std::cout, rows);
  } else if (command.csv) {
    write_csv(std::cout, rows);
  } else {
    if (!command.allow_unequal) require_equal_budgets(read_results(out));
    print_tables(std::cout, rows);
  }
  std::cout.flush();
}

void run(SweepCommand& command) {
  if (command.schema) {
    std::cout << dump_json(sweep_schema(), 2) << '\n';
    return;
  }
  if (command.config.empty()) config_error("no configuration: kvbench sweep CONFIG.json");
  if (command.json && command.csv) config_error("give --json or --csv, not both");
  SweepPlan plan = read_sweep(command.config, command.overrides);
  const std::filesystem::path out = command.out.empty() ? plan.out.string() : command.out;
  if (command.plan) return print_plan(std::cout, plan, out);
  if (command.dry_run) {
    SweepRun options;
    options.quiet = command.quiet;
    if (!command.quiet) options.say = say;
    return dry_run_groups(plan.groups, options);
  }
  if (out.empty()) {
    config_error("{}: key out: missing: a folder for the records, or --out", command.config);
  }
  const RecordStore store(out);
  for (const std::string& warning : store.warnings()) say("warning: " + warning);
  for (const std::string& warning : store.read().warnings) say("warning: " + warning);
  TaskContext context;
  if (!command.shard.empty() || command.jobs > 1) add_costs(plan, context);
  const int exit_code = run_cells(command, plan, out);
  print_results(command, out, plan);
  if (exit_code != 0) {
    throw Error(exit_code, fmt::format("{}: not every cell is finished; the same command runs "
                                       "those that failed again",
                                       command.config));
  }
}

}  // namespace

void add_sweep_command(CLI::App& app) {
  CLI::App* added =
      app.add_subcommand("sweep",
                         "All cells of a JSON configuration: lists and ranges expanded, "
                         "resumed after a stop, divided among processes");
  const auto command = std::make_shared<SweepCommand>();
  command->declare();
  add_settings(*added, command->settings, "config");
  added->footer(
      "Examples:\n"
      "  kvbench sweep configs/smoke.json --plan\n"
      "  kvbench sweep configs/smoke.json --out results/smoke --jobs 2\n"
      "  kvbench sweep configs/smoke.json --set tokens=2048 --shard 2/8 --out results/smoke");
  added->callback([command] { run(*command); });
}

}  // namespace kvbench
