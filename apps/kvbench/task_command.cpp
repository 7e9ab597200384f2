// One subcommand for each task of the registry: `kvbench ppl` and the others. Their settings become
// options; what every task has beside them is where the records go and how they are printed.
#include <fmt/core.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/kvbench/commands.hpp"
#include "apps/kvbench/options.hpp"
#include "core/error.hpp"
#include "report/console_reporter.hpp"
#include "report/csv_reporter.hpp"
#include "report/equal_budgets.hpp"
#include "report/json_reporter.hpp"
#include "report/record_store.hpp"
#include "task/op_shares.hpp"
#include "task/task.hpp"

namespace kvbench {
namespace {

struct TaskCommand {
  const TaskInfo& info;
  std::unique_ptr<Task> task;
  SettingSet settings;
  std::string out;
  bool resume = false;
  bool json = false;
  bool csv = false;
  bool quiet = false;
  bool profile = false;
};

// Policies of one budget should have held as much: a table alone does not tell.
void warn_of_unequal_budgets(const std::vector<nlohmann::ordered_json>& rows) {
  ResultSet results;
  for (const nlohmann::ordered_json& row : rows) {
    ResultRun run;
    run.row = std::make_shared<nlohmann::ordered_json>(row);
    run.task = run.text("task");
    run.policy = run.text("policy");
    results.runs.push_back(std::move(run));
  }
  if (const auto fault = unequal_budgets(results)) fmt::print(stderr, "warning: {}\n", *fault);
}

void print_rows(const TaskCommand& command, const std::vector<nlohmann::ordered_json>& rows) {
  if (command.json) {
    write_json_rows(std::cout, rows);
  } else if (command.csv) {
    write_csv(std::cout, rows);
  } else {
    write_table(std::cout, command.info.columns, rows);
  }
  std::cout.flush();
  if (!command.quiet) warn_of_unequal_budgets(rows);
}

void run(TaskCommand& command) {
  if (command.json && command.csv) config_error("give --json or --csv, not both");
  command.task->check();
  std::optional<RecordStore> store;
  if (!command.out.empty()) {
    store.emplace(command.out);
    for (const std::string& warning : store->warnings()) {
      fmt::print(stderr, "warning: {}\n", warning);
    }
  }
  if (command.resume && !store) config_error("--resume goes on from the records in --out FOLDER");
  TaskContext context;
  context.quiet = command.quiet;
  context.profile = command.profile;
  std::vector<nlohmann::ordered_json> rows;
  IndexContents done;
  if (command.resume) {
    done = store->read();
    context.done = &done;
    context.on_done = [&rows](const IndexEntry& entry) {
      rows.push_back(nlohmann::ordered_json::parse(entry.row_json));
    };
  }
  context.on_record = [&](const RunRecord& record) {
    if (store) store->write(record);
    if (command.resume) rows.push_back(record_to_row(record));
  };
  const std::vector<RunRecord> records = command.task->run(context);
  if (!command.resume) {  // else they stand among those that were found, as they ran
    for (const RunRecord& record : records) rows.push_back(record_to_row(record));
  }
  print_rows(command, rows);
  if (command.profile && !command.json && !command.csv) {
    for (const RunRecord& record : records) write_profiles(std::cout, record);
  }
  for (const RunRecord& record : records) {
    if (!record.ok) throw Error(record.exit_code, record.policy + ": " + record.reason);
  }
}

void add_task_command(CLI::App& app, const TaskInfo& info) {
  CLI::App* added = app.add_subcommand(std::string(info.name), std::string(info.summary));
  const auto command =
      std::make_shared<TaskCommand>(TaskCommand{info, info.make(), {}, "", {}, {}, {}, {}, {}});
  SettingSet& settings = command->settings;
  command->task->declare(settings);
  settings.text("out", command->out, "Folder for the records");
  settings.flag("resume", command->resume,
                "Leave out what is finished in --out; the table has both");
  settings.flag("json", command->json, "Print the records as a JSON array");
  settings.flag("csv", command->csv, "Print the records as CSV");
  settings.flag("quiet", command->quiet, "No progress line");
  settings.flag("profile", command->profile,
                "Say which operations the time went to; measuring it takes a little, too");
  add_settings(*added, settings);
  added->footer("Examples:\n" + std::string(info.examples));
  added->callback([command] { run(*command); });
}

}  // namespace

void add_task_commands(CLI::App& app) {
  for (const TaskInfo& info : tasks()) add_task_command(app, info);
}

}  // namespace kvbench
