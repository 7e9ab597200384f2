// The subcommands of the program. A new one is a file like list_command.cpp and a row in the
// table of commands.cpp.
#pragma once

#include <CLI/CLI.hpp>

#include <span>

namespace kvbench {

// Adds a subcommand (or several) whose callback does the work and throws on failure.
using AddCommand = void (*)(CLI::App& app);

std::span<const AddCommand> commands();

}  // namespace kvbench
