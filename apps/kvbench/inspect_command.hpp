// `kvbench inspect`: what a model directory or a safetensors file holds, before any run.
#pragma once

#include <CLI/CLI.hpp>

namespace kvbench {

void add_inspect_command(CLI::App& app);

}  // namespace kvbench
