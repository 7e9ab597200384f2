// Settings as command-line options. CLI11's own conversions take "-1" for 2^64 - 1, "010" for 8, ""
// for 0 and "nan" for a ratio, so values are converted by the settings; a fault ends the parse with
// a message that names the option. An option given twice is a fault.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "config/setting_set.hpp"

namespace kvbench {

// One option for each setting: --max-tokens for max_tokens. A setting of the name `positional` is
// an argument without a name, or arguments if it repeats. The settings must outlive the command.
void add_settings(CLI::App& command, SettingSet& settings, const std::string& positional = "");

// "--max-tokens" for max_tokens.
std::string option_name(const std::string& setting_name);

}  // namespace kvbench
