// Table of subcommands, in the order in which help shows them.
#include "apps/kvbench/commands.hpp"

namespace kvbench {

// Each is defined in the file of that name.
void add_task_commands(CLI::App& app);  // one for each row of tasks()
void add_sweep_command(CLI::App& app);
void add_trace_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_tokenize_command(CLI::App& app);
void add_compare_command(CLI::App& app);
void add_report_command(CLI::App& app);
void add_list_command(CLI::App& app);

std::span<const AddCommand> commands() {
  static constexpr AddCommand kTable[] = {
      add_task_commands,    add_sweep_command,   add_trace_command,  add_inspect_command,
      add_tokenize_command, add_compare_command, add_report_command, add_list_command,
  };
  return kTable;
}

}  // namespace kvbench
